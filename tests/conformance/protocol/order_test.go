//go:build conformance

package protocol

import (
	"errors"
	"io"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/tests/conformance/internal/wire"
)

// TestAnswersKeepTheOrderOfRequests pipelines slow and fast requests on one connection, and produces with acks=0 between
// them: the answers come in the order of the requests, and acks=0 has none (BL-008).
func TestAnswersKeepTheOrderOfRequests(t *testing.T) {
	c := dial(t)
	topic := newTopic(t, c, "order", 1)
	type sent struct {
		req kmsg.Request
		id  int32
	}
	const rounds, perRound = 100, 16
	for round := range rounds {
		var waiting []sent
		for i := range perRound {
			req := pipelined(topic.Name, round*perRound+i)
			id, err := c.Send(req)
			if err != nil {
				t.Fatal(err)
			}
			if produce, ok := req.(*kmsg.ProduceRequest); !ok || produce.Acks != 0 {
				waiting = append(waiting, sent{req, id})
			}
		}
		for _, s := range waiting {
			if _, _, err := c.Receive(s.req, s.id); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
	}
	end, err := c.Offset(topic.Name, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	if want := int64(rounds * perRound / 4 * 2); end != want {
		t.Errorf("%d records were written, want %d", end, want)
	}
}

// pipelined is a slow or a fast request: a fetch that waits at the end of the log, a produce with acks=all or 0, or one
// that is answered at once.
func pipelined(topic string, i int) kmsg.Request {
	switch i % 4 {
	case 0:
		fetch := wire.Fetch(topic, 0, 0)
		fetch.MinBytes, fetch.MaxWaitMillis = 1<<30, 2
		return fetch
	case 1:
		return wire.Produce(topic, 0, wire.Batch{Records: records(1, baseMs)}.Encode())
	case 2:
		produce := wire.Produce(topic, 0, wire.Batch{Records: records(1, baseMs)}.Encode())
		produce.Acks = 0
		return produce
	}
	if i%8 == 3 {
		req := kmsg.NewPtrApiVersionsRequest()
		req.Version = 0
		return req
	}
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.Topics = 9, []kmsg.MetadataRequestTopic{}
	return req
}

// TestFailedProduceWithoutAcksClosesTheConnection: it is the only way to tell the client.
func TestFailedProduceWithoutAcksClosesTheConnection(t *testing.T) {
	c := dial(t)
	produce := wire.Produce("protocol-"+run+"-nowhere", 0, wire.Batch{Records: records(1, baseMs)}.Encode())
	produce.Acks = 0
	if _, err := c.Send(produce); err != nil {
		t.Fatal(err)
	}
	frame, err := c.ReadFrame()
	if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %x, %v; want a closed connection", frame, err)
	}
}
