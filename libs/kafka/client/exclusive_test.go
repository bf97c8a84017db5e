package client

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// dialFake opens an exclusive connection to a fake.
func dialFake(t *testing.T, config Config) (*Exclusive, *fake) {
	t.Helper()
	ours, theirs := net.Pipe()
	config.Dial = func(context.Context, string) (net.Conn, error) { return ours, nil }
	f := &fake{t: t, nc: theirs, in: bufio.NewReader(theirs)}
	go f.negotiate()
	e, err := DialExclusive(t.Context(), "node:9092", config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e, f
}

func TestExclusiveAnswersOfEverySize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, f := dialFake(t, Config{ClientID: "follower"})
		for _, n := range []int{1, 10, 4 << 20, 100, 3 << 20} {
			topic := strings.Repeat("x", 10)
			go func() {
				got := f.mustReceive()
				if got.GetVersion() != 7 || got.clientID != "follower" {
					t.Errorf("version %d from %q", got.GetVersion(), got.clientID)
				}
				resp := kmsg.NewPtrMetadataResponse()
				resp.ClusterID = kmsg.StringPtr(strings.Repeat("y", min(n, 30000)))
				for range n / 100 {
					b := kmsg.NewMetadataResponseBroker()
					b.Host = strings.Repeat("h", 90)
					resp.Brokers = append(resp.Brokers, b)
				}
				f.reply(got, resp)
			}()
			resp, err := e.Do(t.Context(), metadataFor(topic), 7)
			if err != nil {
				t.Fatalf("%d bytes: %v", n, err)
			}
			m := resp.(*kmsg.MetadataResponse)
			if len(m.Brokers) != n/100 || *m.ClusterID != strings.Repeat("y", min(n, 30000)) {
				t.Errorf("%d bytes: %d brokers, cluster id of %d bytes", n, len(m.Brokers), len(*m.ClusterID))
			}
		}
	})
}

func TestExclusiveRefusesWhatIsNoAnswer(t *testing.T) {
	frame := func(size uint32, id uint32) []byte {
		return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, size), id)
	}
	for name, bytes := range map[string][]byte{
		"another request's": frame(4, 77), "too short": frame(3, 1), "too long": frame(1<<20+1, 1), "negative": frame(1<<31, 1),
	} {
		synctest.Test(t, func(t *testing.T) {
			e, f := dialFake(t, Config{MaxResponseBytes: 1 << 20})
			go func() {
				f.mustReceive()
				_, _ = f.nc.Write(bytes)
			}()
			if _, err := e.Do(t.Context(), metadataFor("x"), 9); err == nil {
				t.Errorf("%s: taken for an answer", name)
			}
		})
	}
}

func TestExclusiveEndsWithItsContextAndTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, f := dialFake(t, Config{})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { f.mustReceive(); cancel() }()
		if _, err := e.Do(ctx, metadataFor("x"), 9); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("cancelled: %v", err)
		}
		e, f = dialFake(t, Config{})
		go f.mustReceive()
		if _, err := e.Do(t.Context(), metadataFor("x"), 9); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("without an answer: %v", err)
		}
		e, _ = dialFake(t, Config{})
		if _, err := e.Do(t.Context(), kmsg.NewPtrFetchRequest(), 17); !errors.Is(err, kerr.UnsupportedVersion) {
			t.Errorf("unknown there: %v", err)
		}
	})
}
