package natsio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/libs/plugin/kit"
	"github.com/cauce-stream/cauce/libs/plugin/remote"
)

// patience is how long a test waits for what is to come.
const patience = 20 * time.Second

// node is a NATS server in this process, which can be stopped and started again with what it has on disk.
type node struct {
	t       testing.TB
	options server.Options
	server  *server.Server
	url     string
}

func start(t testing.TB, change ...func(*server.Options)) *node {
	t.Helper()
	n := &node{t: t, options: server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true}}
	for _, c := range change {
		c(&n.options)
	}
	n.run()
	t.Cleanup(n.stop)
	return n
}

func (n *node) run() {
	n.t.Helper()
	options := n.options
	var err error
	if n.server, err = server.NewServer(&options); err != nil {
		n.t.Fatal(err)
	}
	n.server.Start()
	if !n.server.ReadyForConnections(patience) {
		n.t.Fatal("the server does not start")
	}
	n.url = n.server.ClientURL()
	n.options.Port = options.Port // it stays where clients look for it
}

func (n *node) stop() {
	n.server.Shutdown()
	n.server.WaitForShutdown()
}

// cutOff ends the connections of connectors.
func (n *node) cutOff() {
	n.t.Helper()
	list, err := n.server.Connz(&server.ConnzOptions{})
	if err != nil {
		n.t.Fatal(err)
	}
	for _, c := range list.Conns {
		if strings.HasPrefix(c.Name, "cauce") {
			if err := n.server.DisconnectClientByID(c.Cid); err != nil {
				n.t.Fatal(err)
			}
		}
	}
}

// listens says whether a connector has so many subscriptions.
func (n *node) listens(count uint32) (bool, error) {
	list, err := n.server.Connz(nil)
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(list.Conns, func(c *server.ConnInfo) bool { return strings.HasPrefix(c.Name, "cauce") && c.NumSubs == count }), nil
}

// client is a connection of the test's own.
func (n *node) client() (*nats.Conn, jetstream.JetStream) {
	n.t.Helper()
	c, err := nats.Connect(n.url, nats.UserInfo("ana", "secret"))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(c.Close)
	streams, err := jetstream.New(c)
	if err != nil {
		n.t.Fatal(err)
	}
	return c, streams
}

// stream makes a stream with messages of some subjects: numbers from 0 on.
func (n *node) stream(config jetstream.StreamConfig, messages int) jetstream.Stream {
	n.t.Helper()
	config.Name = "S"
	if config.Subjects == nil {
		config.Subjects = []string{"in.>"}
	}
	_, streams := n.client()
	stream, err := streams.CreateStream(n.t.Context(), config)
	if err != nil {
		n.t.Fatal(err)
	}
	n.publish(0, messages)
	return stream
}

// publish publishes numbers.
func (n *node) publish(from, to int) {
	n.t.Helper()
	_, streams := n.client()
	for i := from; i < to; i++ {
		if _, err := streams.PublishAsync(fmt.Sprintf("in.%d", i%3), fmt.Append(nil, i)); err != nil {
			n.t.Fatal(err)
		}
	}
	select {
	case <-streams.PublishAsyncComplete():
	case <-time.After(patience):
		n.t.Fatal("what was published is not confirmed")
	}
}

// pending waits until a consumer has so many messages that are not confirmed.
func (n *node) pending(consumer string, want int) {
	n.t.Helper()
	_, streams := n.client()
	n.until(func() (bool, error) {
		c, err := streams.Consumer(n.t.Context(), "S", consumer)
		if err != nil {
			return false, err
		}
		return c.CachedInfo().NumAckPending == want, nil
	})
}

// until asks again and again until something is so.
func (n *node) until(done func() (bool, error)) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), patience)
	defer cancel()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		is, err := done()
		if is {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			n.t.Fatalf("it does not come to be: %v", err)
		}
	}
}

func serve(t testing.TB, c plugin.Connector) kit.Connector {
	t.Helper()
	connector, stop, err := kit.InProcess(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return connector
}

// config is that of a connector to the node, with quick retries.
func (n *node) config(more map[string]string) map[string]string {
	all := map[string]string{"nats.servers": n.url, "retry.backoff.ms": "10", "retry.backoff.max.ms": "50", "nats.timeout.ms": "2000"}
	maps.Copy(all, more)
	return all
}

func stopTask(t testing.TB, stop func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	if err := stop(ctx); err != nil {
		t.Error(err)
	}
}

// reading is a task of a source, and what it has read.
type reading struct {
	t    testing.TB
	task *remote.SourceTask
	got  []message
}

// message is a record with its number among those of the task.
type message struct {
	data.Record
	number uint64
	offset string
}

func (n *node) source(more map[string]string, offset string) *reading {
	n.t.Helper()
	task, err := serve(n.t, Source{}).StartSource(n.t.Context(), remote.Task{Config: n.config(more),
		ReadOffsets: func(_ context.Context, partitions []json.RawMessage) ([]json.RawMessage, error) {
			if len(partitions) != 1 || string(partitions[0]) != `{"stream":"S"}` {
				return nil, fmt.Errorf("asked for %s", partitions)
			}
			return []json.RawMessage{json.RawMessage(offset)}, nil
		}})
	if err != nil {
		n.t.Fatal(err)
	}
	return &reading{t: n.t, task: task}
}

// poll reads once. The error is one after which the task is over.
func (r *reading) poll(ctx context.Context) error {
	batch, err := r.task.Poll(ctx)
	var f *remote.Fault
	if errors.As(err, &f) && f.Retriable {
		return nil
	} else if err != nil {
		return err
	}
	for i, record := range batch.Records {
		if err := record.Value.Validate(); err != nil {
			r.t.Error(err)
		}
		_, offset := batch.Position(i)
		r.got = append(r.got, message{record, batch.First + uint64(i), string(offset)})
	}
	return nil
}

// read reads until there are so many in all.
func (r *reading) read(count int) []message {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	for len(r.got) < count {
		if err := r.poll(ctx); err != nil {
			r.t.Fatalf("after %d of %d records: %v", len(r.got), count, err)
		}
	}
	return r.got
}

// store says that records are stored.
func (r *reading) store(messages ...message) {
	r.t.Helper()
	var acks []remote.Ack
	for _, m := range messages {
		acks = append(acks, remote.Ack{Record: m.number, Stored: &plugin.RecordMetadata{Topic: m.Topic}})
	}
	if err := r.task.Acknowledge(r.t.Context(), acks); err != nil {
		r.t.Fatal(err)
	}
	if err := r.task.Commit(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

func (r *reading) stop() {
	r.t.Helper()
	stopTask(r.t, r.task.Stop)
}

// wantNumbers finds that messages are the numbers from one on, in order.
func wantNumbers(t testing.TB, got []message, from int) {
	t.Helper()
	for i, m := range got {
		if text := string(m.Value.V.([]byte)); text != fmt.Sprint(from+i) {
			t.Fatalf("message %d is %s, not %d", i, text, from+i)
		}
	}
}

func text(s string) data.Value { return data.Value{Schema: textSchema, V: s} }

// records are texts of a partition, from an offset on, each with itself as key.
func records(partition int32, offset int64, texts ...string) []plugin.SinkRecord {
	var all []plugin.SinkRecord
	for i, one := range texts {
		r := data.NewRecord("orders", text(one), text(one))
		r.Partition, r.Offset = partition, offset+int64(i)
		all = append(all, plugin.SinkRecord{Record: r, Original: plugin.TopicPartition{Topic: r.Topic, Partition: r.Partition}})
	}
	return all
}

func numbers(from, to int) []string {
	var texts []string
	for i := from; i < to; i++ {
		texts = append(texts, fmt.Sprint(i))
	}
	return texts
}

func (n *node) sink(more map[string]string, reports bool) *remote.SinkTask {
	n.t.Helper()
	task, err := serve(n.t, Sink{}).StartSink(n.t.Context(), remote.Task{Config: n.config(more), Reports: reports})
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { stopTask(n.t, task.Stop) })
	return task
}

// put puts records until they are taken or refused for good.
func put(t testing.TB, task *remote.SinkTask, records []plugin.SinkRecord) (errant []remote.Errant, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		w, err := task.Put(ctx, records)
		errant = append(errant, w.Errant...)
		var f *remote.Fault
		if err == nil || !errors.As(err, &f) || !f.Retriable {
			return errant, err
		}
	}
}

// commit asks until an offset is safe.
func commit(t testing.TB, task *remote.SinkTask, offset int64) (errant []remote.Errant) {
	t.Helper()
	p := plugin.TopicPartition{Topic: "orders"}
	for began := time.Now(); time.Since(began) < patience; {
		safe, w, err := task.PreCommit(t.Context(), map[plugin.TopicPartition]int64{p: offset})
		if err != nil {
			t.Fatal(err)
		}
		errant = append(errant, w.Errant...)
		if safe[p] == offset {
			return errant
		}
	}
	t.Fatalf("offset %d does not come to be safe", offset)
	return nil
}

// contents are the data of all messages of the stream, in order.
func (n *node) contents() []string {
	n.t.Helper()
	var all []string
	for _, m := range n.messages() {
		all = append(all, string(m.Data))
	}
	return all
}

func (n *node) messages() []*jetstream.RawStreamMsg {
	n.t.Helper()
	_, streams := n.client()
	stream, err := streams.Stream(n.t.Context(), "S")
	if err != nil {
		n.t.Fatal(err)
	}
	var all []*jetstream.RawStreamMsg
	for i := max(stream.CachedInfo().State.FirstSeq, 1); i <= stream.CachedInfo().State.LastSeq; i++ {
		m, err := stream.GetMsg(n.t.Context(), i)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		} else if err != nil {
			n.t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

func wantTexts(t testing.TB, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// faultsOf are the keys in which something is wrong, with what is.
func faultsOf(t testing.TB, c plugin.Connector, config map[string]string) map[string]string {
	t.Helper()
	validation, err := serve(t, c).Validate(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	faults := map[string]string{}
	for _, v := range validation.Values {
		if len(v.Errors) > 0 {
			faults[v.Name] = v.Errors[0]
		}
	}
	return faults
}
