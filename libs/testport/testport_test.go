package testport

import (
	"net"
	"strconv"
	"testing"
)

func TestPortsAreGivenOnce(t *testing.T) {
	seen := map[int]bool{}
	for _, count := range []int{1, 40, 70, 1, 100} { // 70 do not fit after 41: another block
		base := Range(t, count)
		for port := base; port < base+count; port++ {
			if seen[port] || port < lowest || port >= highest {
				t.Errorf("port %d was given before or is out of range", port)
			}
			seen[port] = true
		}
	}
}

func TestTakenPortsAreSkipped(t *testing.T) {
	base := Range(t, 1)
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(base+2)))
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	if got := Range(t, 2); got <= base+2 && base+2 < got+2 {
		t.Errorf("ports %d and %d were given while %d is taken", got, got+1, base+2)
	}
}
