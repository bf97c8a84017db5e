package bus

import (
	"net"
	"time"
)

// dialTimeout bounds how long one server is tried.
const dialTimeout = 2 * time.Second

// dialer connects to servers. What a connection has not delivered when it is given up is lost with it: the kernel would go on
// delivering it for minutes after a cut has healed, to a controller that then did what nobody waits for any more.
type dialer struct{}

// Dial implements nats.CustomDialer.
func (dialer) Dial(network, address string) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, dialTimeout)
	if err != nil {
		return nil, err
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		if err := tcp.SetLinger(0); err != nil {
			_ = conn.Close()
			return nil, err
		}
	}
	return conn, nil
}
