// Package markerapi answers WriteTxnMarkers on nodes whose roles each store some of the partitions: brokers those that they lead,
// coordinators those of their shards.
package markerapi

import (
	"errors"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.opentelemetry.io/otel/trace"

	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/record"
)

// WriteTxnMarkers (key 27), versions 1 to 2.
//
//	2   the transaction's version (KIP-1228)
const key, minVersion, maxVersion = 27, 1, 2

// Write ends a transaction in a partition and has done called exactly once, from any goroutine and possibly before it returns: with
// nil once the marker is committed, or with an error that wraps a *kerr.Error. It must not block. origin is the span of the request.
type Write func(origin trace.SpanContext, topic string, partition int32, e record.Ending, done func(error))

// parts are the writers of one node.
type parts struct {
	own  map[string]Write
	rest Write // nil for none
}

// Serve has write answer for the partitions of a topic, or with an empty topic for those of all topics that no other role of the
// node answers for.
func Serve(router *server.Router, topic string, write Write) {
	p, ok := router.Shared(key).(*parts)
	if !ok {
		p = &parts{own: map[string]Write{}}
		router.Register(server.API{Key: key, MinVersion: minVersion, MaxVersion: maxVersion, Handle: p.handle, Inline: true, Shared: p})
	}
	if topic == "" {
		p.rest = write
		return
	}
	p.own[topic] = write
}

func (p *parts) writer(topic string) Write {
	if w := p.own[topic]; w != nil {
		return w
	}
	if p.rest != nil {
		return p.rest
	}
	return func(_ trace.SpanContext, _ string, _ int32, _ record.Ending, done func(error)) {
		done(kerr.NotLeaderForPartition)
	}
}

// handle answers once all partitions have.
func (p *parts) handle(r *server.Request) {
	q := kmsg.NewPtrWriteTxnMarkersRequest()
	if err := r.Decode(q); err != nil {
		r.Fail(err)
		return
	}
	r.ReleaseBody() // markers wait for replicas
	resp := response(q)
	var open atomic.Int64
	open.Store(1)
	over := func() {
		if open.Add(-1) == 0 {
			r.Reply(resp)
		}
	}
	for i := range q.Markers {
		m := &q.Markers[i]
		e := ending(m)
		for j := range m.Topics {
			write := p.writer(m.Topics[j].Topic)
			results := resp.Markers[i].Topics[j].Partitions
			for k, id := range m.Topics[j].Partitions {
				open.Add(1)
				write(r.Trace().SpanContext(), m.Topics[j].Topic, id, e, func(err error) {
					results[k].ErrorCode = code(err)
					over()
				})
			}
		}
	}
	over()
}

func ending(m *kmsg.WriteTxnMarkersRequestMarker) record.Ending {
	e := record.Ending{
		Marker:     record.Marker{Type: record.Abort, CoordinatorEpoch: m.CoordinatorEpoch},
		ProducerID: m.ProducerID, ProducerEpoch: m.ProducerEpoch, TxnVersion: m.TransactionVersion,
	}
	if m.Committed {
		e.Type = record.Commit
	}
	return e
}

// response has a place for the code of each partition.
func response(q *kmsg.WriteTxnMarkersRequest) *kmsg.WriteTxnMarkersResponse {
	resp := kmsg.NewPtrWriteTxnMarkersResponse()
	for _, m := range q.Markers {
		out := kmsg.WriteTxnMarkersResponseMarker{ProducerID: m.ProducerID}
		for _, t := range m.Topics {
			topic := kmsg.WriteTxnMarkersResponseMarkerTopic{Topic: t.Topic}
			for _, id := range t.Partitions {
				topic.Partitions = append(topic.Partitions, kmsg.WriteTxnMarkersResponseMarkerTopicPartition{Partition: id})
			}
			out.Topics = append(out.Topics, topic)
		}
		resp.Markers = append(resp.Markers, out)
	}
	return resp
}

func code(err error) int16 {
	if err == nil {
		return 0
	}
	if known, ok := errors.AsType[*kerr.Error](err); ok {
		return known.Code
	}
	return kerr.UnknownServerError.Code
}
