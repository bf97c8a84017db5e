package sourcetask

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/data"
)

// creating are properties with groups of topics.
func creating(pairs ...string) []string {
	return append(pairs, "topic.creation.default.partitions", "2", "topic.creation.default.replication.factor", "1", "topic.creation.groups", "logs",
		"topic.creation.logs.include", `logs\..*`, "topic.creation.logs.partitions", "4", "topic.creation.logs.max.message.bytes", "2000")
}

func TestTopicsAreCreated(t *testing.T) {
	w := newWorld(t)
	var asked []string
	w.cluster.ControlKey(int16(kmsg.CreateTopics), func(request kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		asked = append(asked, request.(*kmsg.CreateTopicsRequest).Topics[0].Topic)
		return nil, nil, false
	})
	s := newSource(turns(values("bills", "a"), values("logs.x", "b"), values("orders", "c"), values("bills", "d")))
	r := w.start(s, nil, creating()...)
	s.await(t, "the records", has("stored a", "stored b", "stored c", "stored d"))
	r.stop()
	if !slices.Equal(asked, []string{"bills", "logs.x"}) {
		t.Errorf("created %q", asked)
	}
	for topic, want := range map[string]int{"bills": 2, "logs.x": 4, "orders": 3} {
		if n := len(w.cluster.PartitionInfos(topic)); n != want {
			t.Errorf("%s has %d partitions", topic, n)
		}
	}
	slices.Sort(r.used)
	if !slices.Equal(r.used, []string{"bills", "logs.x", "orders"}) {
		t.Errorf("used %q", r.used)
	}
}

func TestTopicsThatCannotBeCreated(t *testing.T) {
	w := newWorld(t)
	w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics}, Err: kerr.TopicAuthorizationFailed, Topic: "bills", Count: -1})
	r := w.start(newSource(turns(values("bills", "a"))), nil, creating("errors.tolerance", "all")...)
	if err := r.end(); !errors.Is(err, kerr.TopicAuthorizationFailed) || !strings.Contains(err.Error(), `topic "bills"`) || !strings.Contains(err.Error(), "group default") {
		t.Errorf("%v", err)
	}
}

// TestTopicsThatCannotBeCreatedYet are tried again, and a task that waits for them can be stopped.
func TestTopicsThatCannotBeCreatedYet(t *testing.T) {
	w := newWorld(t)
	fault := w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics}, Err: kerr.NotController, Topic: "bills", Count: -1})
	s := newSource(turns(values("bills", "a")))
	r := w.start(s, nil, creating()...)
	if err := fault.Wait(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	r.stop()
	s = newSource(turns(values("bills", "a")))
	w.start(s, nil, creating()...)
	if err := fault.Wait(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	fault.Remove()
	s.await(t, "the record", has("stored a"))
}

func TestAnUnknownTopic(t *testing.T) {
	w := newWorld(t)
	s := newSource(turns(values("bills", "a"), values("orders", "b")))
	r := w.start(s, nil, "errors.tolerance", "all")
	s.await(t, "both", has("left out a", "stored b"))
	r.stop()
	r = w.start(newSource(turns(values("bills", "a"))), nil)
	if err := r.end(); !errors.Is(err, kerr.UnknownTopicOrPartition) || !strings.Contains(err.Error(), "record for bills") {
		t.Errorf("%v", err)
	}
	w2 := newWorld(t, kfake.AllowAutoTopicCreation())
	s = newSource(turns(values("bills", "a")))
	w2.start(s, nil)
	s.await(t, "a topic that brokers make", has("stored a"))
}

// TestBatchesAreNotTooLarge has a topic take less than a producer would put into a batch.
func TestBatchesAreNotTooLarge(t *testing.T) {
	w := newWorld(t)
	text := strings.Repeat("x", 900)
	var file *plugin.SourcePartition
	s := newSource(turns(func() ([]plugin.SourceRecord, error) {
		var records []plugin.SourceRecord
		for range 50 {
			r := record("logs.x", text)
			r.Partition = 0
			records = append(records, r)
		}
		large := record("logs.x", strings.Repeat("y", 3000))
		large.Partition = 0
		large.Source, large.Offset = file, map[string]any{"line": 21}
		return slices.Insert(records, 20, large), nil
	}))
	s.start = func(ctx context.Context, c *plugin.SourceContext) (err error) {
		file, err = c.Partition(ctx, map[string]string{"file": "a"})
		return err
	}
	r := w.start(s, nil, creating("errors.tolerance", "all")...)
	f := <-r.reports
	if !errors.Is(f.Err, kerr.MessageTooLarge) {
		t.Errorf("%v", f)
	}
	for _, part := range []string{"the record has 3", `max.message.bytes of topic "logs.x" is 2000`, "max.request.size of the producer is 1000012", `partition {"file":"a"} at offset {"line":21}`} {
		if !strings.Contains(f.Err.Error(), part) {
			t.Errorf("%v does not say %s", f.Err, part)
		}
	}
	if got := len(w.consume("logs.x", 50)[0]); got != 50 {
		t.Errorf("%d records", got)
	}
}

// TestPartitions has records keep theirs, and others be spread by their keys as Kafka's producers do.
func TestPartitions(t *testing.T) {
	w := newWorld(t)
	want := map[string]int32{}
	s := newSource(turns(func() ([]plugin.SourceRecord, error) {
		var records []plugin.SourceRecord
		for i := range int32(3) {
			r := record("orders", "own-"+string('0'+i))
			r.Partition, r.Key.V = i, "same key"
			records, want["own-"+string('0'+i)] = append(records, r), i
		}
		for _, key := range []string{"a", "b", "another key"} {
			r := record("orders", "by-"+key)
			r.Key.V = key
			records = append(records, r)
		}
		return records, nil
	}))
	w.start(s, nil)
	got := map[string]int32{}
	for p, records := range w.consume("orders", 6) {
		for _, text := range texts(records) {
			got[text] = p
		}
	}
	kafkas := kgo.StickyKeyPartitioner(nil).ForTopic("orders")
	for _, key := range []string{"a", "b", "another key"} {
		want["by-"+key] = int32(kafkas.Partition(&kgo.Record{Key: []byte(key)}, 3))
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestANewPartition has a record for a partition that the producer does not know yet.
func TestANewPartition(t *testing.T) {
	w := newWorld(t)
	added := make(chan struct{})
	into := func(partition int32, value string) plugin.SourceRecord {
		r := record("orders", value)
		r.Partition = partition
		return r
	}
	s := newSource(turns(func() ([]plugin.SourceRecord, error) { return []plugin.SourceRecord{into(2, "a")}, nil }, func() ([]plugin.SourceRecord, error) {
		<-added
		return []plugin.SourceRecord{into(0, "b"), into(4, "c"), into(4, "d"), into(1, "e")}, nil
	}))
	r := w.start(s, nil)
	s.await(t, "the first record", has("stored a"))
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	request := kmsg.NewPtrCreatePartitionsRequest()
	request.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "orders", Count: 5}}
	if response, err := request.RequestWith(t.Context(), cl); err != nil || response.Topics[0].ErrorCode != 0 {
		t.Fatal(response, err)
	}
	close(added)
	s.await(t, "the others", has("stored b", "stored c", "stored d", "stored e"))
	r.stop()
	if got := texts(w.consume("orders", 5)[4]); !slices.Equal(got, []string{"c", "d"}) {
		t.Errorf("the new partition has %q", got)
	}
}

// TestAPartitionThatIsNotThere has a record for one fail before long, and others that come then at once.
func TestAPartitionThatIsNotThere(t *testing.T) {
	w := newWorld(t)
	into := func(partition int32, value string) plugin.SourceRecord {
		r := record("orders", value)
		r.Partition = partition
		return r
	}
	stored := make(chan struct{})
	const many = 20
	s := newSource(turns(func() ([]plugin.SourceRecord, error) { return []plugin.SourceRecord{into(0, "a")}, nil }, func() ([]plugin.SourceRecord, error) {
		<-stored
		return append(slices.Repeat([]plugin.SourceRecord{into(7, "x")}, many), into(1, "b")), nil
	}))
	r := w.start(s, nil, "errors.tolerance", "all")
	s.await(t, "the first record", has("stored a"))
	began := time.Now()
	close(stored)
	s.await(t, "the last record", has("left out x", "stored b"))
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("%d records for a partition that is not there took %v", many, took)
	}
	for range many {
		if f := <-r.reports; !strings.Contains(f.Error(), `record for orders-7: KAFKA_PRODUCE`) || !strings.Contains(f.Error(), `topic "orders" has no partition 7, it has 3`) {
			t.Error(f)
		}
	}
	r.stop()
	r = w.start(newSource(turns(func() ([]plugin.SourceRecord, error) { return []plugin.SourceRecord{into(9, "y")}, nil })), nil)
	if err := r.end(); err == nil || !strings.Contains(err.Error(), `topic "orders" has no partition 9, it has 3`) {
		t.Errorf("the first record of a task: %v", err)
	}
}

func TestAPluginChoosesPartitions(t *testing.T) {
	w := newWorld(t)
	s := newSource(turns(func() ([]plugin.SourceRecord, error) {
		fixed := record("orders", "fixed")
		fixed.Partition = 0
		dropped := record("orders", "dropped")
		dropped.Headers = []data.Header{{Name: "drop", Value: data.Value{V: "x"}}}
		return []plugin.SourceRecord{record("orders", "x2"), dropped, record("orders", "x1"), fixed}, nil
	}))
	ask := func(_ context.Context, name, topic string, partitions int32, records []plugin.Record) ([]int32, error) {
		if name != "last-digit" || topic != "orders" || partitions != 3 || len(records) != 2 {
			t.Errorf("asked %s for %d records of %s with %d partitions", name, len(records), topic, partitions)
		}
		chosen := make([]int32, len(records))
		for i, r := range records {
			chosen[i] = int32(r.Value[1] - '0')
		}
		return chosen, nil
	}
	w.start(s, func(_ *Config, d *Deps) { d.Partition = ask }, "producer.override.partitioner.class", "last-digit", "transforms", "t", "transforms.t.type", "Filter",
		"transforms.t.predicate", "p", "predicates", "p", "predicates.p.type", "HasHeaderKey", "predicates.p.name", "drop")
	got := w.consume("orders", 3)
	if strings.Join(texts(got[0]), "") != "fixed" || strings.Join(texts(got[1]), "") != "x1" || strings.Join(texts(got[2]), "") != "x2" {
		t.Errorf("%q %q %q", texts(got[0]), texts(got[1]), texts(got[2]))
	}

	r := w.start(newSource(turns(values("orders", "a"))), func(_ *Config, d *Deps) {
		d.Partition = func(context.Context, string, string, int32, []plugin.Record) ([]int32, error) { return nil, errBroken }
	}, "worker:producer.partitioner.class", "last-digit")
	if err := r.end(); !errors.Is(err, errBroken) || !strings.Contains(err.Error(), `partitioner "last-digit"`) {
		t.Errorf("%v", err)
	}
}
