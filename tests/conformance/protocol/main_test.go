//go:build conformance

package protocol

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/tests/conformance/internal/server"
	"github.com/cauce-stream/cauce/tests/conformance/internal/wire"
)

// root is the project's folder as seen from this package.
const root = "../../.."

// under is the server under test; run tells this run's topics from those of others on the same server.
var (
	under *server.Server
	run   = server.NewRun()
)

func TestMain(m *testing.M) {
	os.Exit(server.Main(m, root, func(s *server.Server) { under = s }))
}

func dial(t *testing.T) *wire.Conn {
	t.Helper()
	c, err := wire.Dial(under.Bootstrap)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// newTopic creates a topic that is removed at the end of the test.
func newTopic(t *testing.T, c *wire.Conn, name string, partitions int32, configs ...string) wire.Topic {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	topic, err := c.CreateTopic(ctx, "protocol-"+run+"-"+name, partitions, configs...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c := dial(t)
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.Version, req.TimeoutMillis, req.TopicNames = 5, 30_000, []string{topic.Name}
		if _, err := c.Do(req); err != nil {
			t.Error(err)
		}
	})
	return topic
}

// do sends a request and fails the test when no answer can be decoded.
func do[T kmsg.Response](t *testing.T, c *wire.Conn, req kmsg.Request) T {
	t.Helper()
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return res.(T)
}

// appendBatch writes a batch and returns its first offset.
func appendBatch(t *testing.T, c *wire.Conn, topic string, partition int32, batch wire.Batch) int64 {
	t.Helper()
	offset, err := c.Append(topic, partition, batch.Encode())
	if err != nil {
		t.Fatalf("append to %s-%d: %v", topic, partition, err)
	}
	return offset
}

// records makes n records whose timestamps are firstMs, firstMs+1, ….
func records(n int, firstMs int64) []wire.Record {
	out := make([]wire.Record, n)
	for i := range out {
		out[i] = wire.Record{TimestampMs: firstMs + int64(i), Key: fmt.Appendf(nil, "k%d", i), Value: fmt.Appendf(nil, "v%d", i)}
	}
	return out
}

// wantCode reports an error when a code is not the one that Kafka answers.
func wantCode(t *testing.T, what string, got int16, want *kerr.Error) {
	t.Helper()
	code := int16(0)
	if want != nil {
		code = want.Code
	}
	if got != code {
		t.Errorf("%s: got %s, want %s", what, codeName(got), codeName(code))
	}
}

func codeName(code int16) string {
	if code == 0 {
		return "NONE"
	}
	return kerr.TypedErrorForCode(code).Message
}

// baseMs is the time that records of these tests carry, in milliseconds.
const baseMs = 1_700_000_000_000
