package sourcetask

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/services/connect/internal/pipeline"
)

// poison is a record that fails at a stage.
func poison(stage pipeline.Stage) plugin.SourceRecord {
	r := record("orders", "poison")
	broken := data.Value{Schema: &data.Schema{Type: data.TypeInt32}, V: int32(7)}
	switch stage {
	case pipeline.Transformation:
		r.Headers = []data.Header{{Name: "bad", Value: data.Value{V: "x"}}}
	case pipeline.KeyConverter:
		r.Key = broken
	case pipeline.ValueConverter:
		r.Value = broken
	case pipeline.HeaderConverter:
		r.Headers = []data.Header{{Name: "bad", Value: broken}}
	case pipeline.KafkaProduce:
		r.Partition = 99
	}
	return r
}

// atStage are the properties that have poison fail at a stage, and nothing else.
func atStage(stage pipeline.Stage, tolerance string) []string {
	pairs := []string{"errors.tolerance", tolerance}
	switch stage {
	case pipeline.Transformation: // a cast of texts that are no numbers
		return append(pairs, "transforms", "t", "transforms.t.type", "Cast$Value", "transforms.t.spec", "int32", "transforms.t.predicate", "p", "predicates", "p",
			"predicates.p.type", "HasHeaderKey", "predicates.p.name", "bad")
	case pipeline.KeyConverter:
		return append(pairs, "key.converter", "ByteArray")
	case pipeline.ValueConverter:
		return append(pairs, "value.converter", "ByteArray")
	case pipeline.HeaderConverter:
		return append(pairs, "header.converter", "ByteArray")
	}
	return pairs
}

func TestPoisonAtEachStage(t *testing.T) {
	stages := []pipeline.Stage{pipeline.Transformation, pipeline.KeyConverter, pipeline.ValueConverter, pipeline.HeaderConverter, pipeline.KafkaProduce}
	for _, stage := range stages {
		for _, tolerance := range []string{"none", "all"} {
			t.Run(string(stage)+" "+tolerance, func(t *testing.T) {
				w := newWorld(t)
				good := func(text string) plugin.SourceRecord {
					r := record("orders", text)
					if stage == pipeline.ValueConverter {
						r.Value.V = []byte(text)
					}
					return r
				}
				s := newSource(turns(func() ([]plugin.SourceRecord, error) { return []plugin.SourceRecord{good("a")}, nil },
					func() ([]plugin.SourceRecord, error) {
						return []plugin.SourceRecord{good("b"), poison(stage), good("c")}, nil
					}))
				r := w.start(s, nil, atStage(stage, tolerance)...)
				f := <-r.reports
				if f.Stage != stage || f.Polled == nil || f.Err == nil {
					t.Errorf("reported %+v", f)
				}
				if tolerance == "none" {
					err := r.end()
					var failure *pipeline.Failure
					if !errors.As(err, &failure) || failure.Stage != stage {
						t.Errorf("the task ends with %v", err)
					}
					if stage != pipeline.KafkaProduce && len(w.consume("orders", 2)) == 0 {
						t.Error("what was before it is not there")
					}
					return
				}
				s.await(t, "poison", func(told []string) bool {
					return slices.ContainsFunc(told, func(line string) bool { return strings.HasPrefix(line, "left out") })
				})
				got := 0
				for _, of := range w.consume("orders", 3) {
					got += len(of)
				}
				if r.stop(); got != 3 || r.metrics.Written.Load() != 3 || r.metrics.Active.Load() != 0 {
					t.Errorf("%d records, metrics %d written, %d active", got, r.metrics.Written.Load(), r.metrics.Active.Load())
				}
			})
		}
	}
}

func TestLeftOutRecordsAreAcknowledged(t *testing.T) {
	w := newWorld(t)
	s := counting("orders", 1, 10, 3)
	r := w.start(s, nil, "transforms", "t", "transforms.t.type", "FilterByExpression", "transforms.t.condition", "false")
	s.await(t, "records", has("left out 0-1", "left out 0-10", "commit"))
	if r.stop(); w.at(0) != 10 || r.metrics.Written.Load() != 0 {
		t.Errorf("stored up to %d, %d written", w.at(0), r.metrics.Written.Load())
	}
}

func TestRetriablePolls(t *testing.T) {
	w := newWorld(t)
	failing := func() ([]plugin.SourceRecord, error) { return nil, plugin.Retriable(errBroken) }
	s := newSource(turns(failing, failing, values("orders", "a")))
	r := w.start(s, nil)
	s.await(t, "the third poll", has("stored a"))
	r.stop()
	s = newSource(turns(values("orders", "b"), func() ([]plugin.SourceRecord, error) { panic("lost") }))
	r = w.start(s, nil)
	if err := r.end(); err == nil || !strings.Contains(err.Error(), "lost") {
		t.Errorf("%v", err)
	}
	s.await(t, "the end", has("stored b", "stop"))
}

// TestOffsetsThatCannotBeStored are stored at the next time.
func TestOffsetsThatCannotBeStored(t *testing.T) {
	w := newWorld(t)
	w.fail = func(write int) error {
		if write < 3 {
			return errBroken
		}
		return nil
	}
	s := counting("orders", 1, 10, 10)
	r := w.start(s, nil)
	s.await(t, "offsets", has("stored 0-10", "commit"))
	if w.at(0) != 10 || r.metrics.CommitFailures.Load() != 2 {
		t.Errorf("stored up to %d after %d failures", w.at(0), r.metrics.CommitFailures.Load())
	}
	r.stop()
}

// TestNothingIsStoredBeyondARecordThatFails has records after one that cannot be produced be stored, which the next task repeats.
func TestNothingIsStoredBeyondARecordThatFails(t *testing.T) {
	w := newWorld(t)
	s := counting("orders", 1, 10, 10)
	poll := s.poll
	s.poll = func(ctx context.Context) ([]plugin.SourceRecord, error) {
		records, err := poll(ctx)
		if len(records) > 5 {
			records[5].Partition = 99
		}
		return records, err
	}
	r := w.start(s, nil)
	if err := r.end(); err == nil || !strings.Contains(err.Error(), "record for orders-99") {
		t.Errorf("%v", err)
	}
	if written := r.metrics.Written.Load(); w.at(0) != 5 || written != 9 {
		t.Errorf("stored up to %d, %d were written", w.at(0), written)
	}
	w.start(counting("orders", 1, 10, 10), nil)
	if got := texts(w.consume("orders", 9+5)[0]); got[9] != "0-6" || got[13] != "0-10" {
		t.Errorf("after that: %q", got)
	}
}

// TestAcksOutOfOrder has the first record of a partition answered last: until then no offset is stored.
func TestAcksOutOfOrder(t *testing.T) {
	w := newWorld(t, kfake.NumBrokers(2))
	for p := range int32(2) { // a request each
		if err := w.cluster.MoveTopicPartition("orders", p, p); err != nil {
			t.Fatal(err)
		}
	}
	release := make(chan struct{})
	w.cluster.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		p := request.(*kmsg.ProduceRequest)
		select {
		case <-release:
		default:
			if p.Topics[0].Partitions[0].Partition == 0 {
				return refuse(p, kerr.NotEnoughReplicas), nil, true
			}
		}
		return nil, nil, false
	})
	var part *plugin.SourcePartition
	s := newSource(nil)
	s.start = func(ctx context.Context, c *plugin.SourceContext) (err error) {
		part, err = c.Partition(ctx, map[string]int{"p": 0})
		return err
	}
	one := func(partition int32, n int, text string) func() ([]plugin.SourceRecord, error) {
		return func() ([]plugin.SourceRecord, error) {
			r := record("orders", text)
			r.Partition, r.Source, r.Offset = partition, part, place{n}
			return []plugin.SourceRecord{r}, nil
		}
	}
	s.poll = turns(one(0, 1, "first"), one(1, 2, "second"))
	r := w.start(s, nil)
	s.await(t, "the second record", has("stored second", "commit"))
	if w.at(0) != 0 {
		t.Errorf("offset %d is stored before the first record", w.at(0))
	}
	close(release)
	s.await(t, "the first record", has("stored first"))
	if r.stop(); w.at(0) != 2 {
		t.Errorf("offset %d is stored", w.at(0))
	}
}

// refuse answers all partitions of a produce request with an error.
func refuse(p *kmsg.ProduceRequest, with *kerr.Error) kmsg.Response {
	response := p.ResponseKind().(*kmsg.ProduceResponse)
	for i := range p.Topics {
		topic := kmsg.NewProduceResponseTopic()
		topic.Topic, topic.TopicID = p.Topics[i].Topic, p.Topics[i].TopicID
		for _, one := range p.Topics[i].Partitions {
			answer := kmsg.NewProduceResponseTopicPartition()
			answer.Partition, answer.ErrorCode = one.Partition, with.Code
			topic.Partitions = append(topic.Partitions, answer)
		}
		response.Topics = append(response.Topics, topic)
	}
	return response
}
