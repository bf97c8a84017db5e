package natsio

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/libs/plugin/kit"
)

func toStream(more map[string]string) map[string]string {
	all := map[string]string{"subject": "in.${topic}"}
	maps.Copy(all, more)
	return all
}

func TestAMessageOfARecord(t *testing.T) {
	n := start(t)
	n.stream(jetstream.StreamConfig{}, 0)
	task := n.sink(toStream(map[string]string{"subject": "in.${topic}.${key}", "key.header": "Key", "stream": "S"}), false)
	all := records(0, 7, "a.b", "c", "d")
	all[0].Headers = []data.Header{{Name: "traceparent", Value: text("00-1")}, {Name: "n", Value: data.Value{V: int64(1)}}, {Name: "n", Value: data.Value{}},
		{Name: "Nats-Rollup", Value: text("all")}, {Name: "nats-msg-id", Value: text("x")}, {Name: "nats.subject", Value: text("x")}}
	all[1].Value = data.Value{V: []any{true}}
	all[2].Value = data.Value{}
	if _, err := put(t, task, all); err != nil {
		t.Fatal(err)
	}
	commit(t, task, 10)
	got := n.messages()
	if len(got) != 3 || got[0].Subject != "in.orders.a.b" || string(got[0].Data) != "a.b" || string(got[1].Data) != "[true]" || len(got[2].Data) != 0 {
		t.Fatalf("%+v", got)
	}
	want := nats.Header{"traceparent": {"00-1"}, "n": {"1", ""}, "Key": {"a.b"}, "Nats-Msg-Id": {"orders-0-7"}, "Nats-Expected-Stream": {"S"}}
	if fmt.Sprint(got[0].Header) != fmt.Sprint(want) {
		t.Errorf("headers %v, want %v", got[0].Header, want)
	}
}

// TestWhatComesAgainIsDropped has records put again by another task, as after a crash.
func TestWhatComesAgainIsDropped(t *testing.T) {
	n := start(t)
	n.stream(jetstream.StreamConfig{}, 0)
	for range 2 {
		task := n.sink(toStream(nil), false)
		if _, err := put(t, task, records(0, 0, numbers(0, 100)...)); err != nil {
			t.Fatal(err)
		}
		commit(t, task, 100)
	}
	wantTexts(t, n.contents(), numbers(0, 100))
}

// TestTheServerGoesAndComes has it restart again and again while records are put: all arrive once, in order.
func TestTheServerGoesAndComes(t *testing.T) {
	n := start(t)
	n.stream(jetstream.StreamConfig{}, 0)
	task := n.sink(toStream(map[string]string{"max.in.flight": "16"}), false)
	for round := range 4 {
		from := 100 * round
		if _, err := put(t, task, records(0, int64(from), numbers(from, from+50)...)); err != nil {
			t.Fatal(err)
		}
		n.stop() // some of them are not confirmed
		safe, w, err := task.PreCommit(t.Context(), map[plugin.TopicPartition]int64{{Topic: "orders"}: int64(from + 50)})
		if err != nil || safe[plugin.TopicPartition{Topic: "orders"}] > int64(from+50) || len(w.Errant) > 0 {
			t.Fatalf("safe %v, %v, %v", safe, w, err)
		}
		put50 := make(chan error, 1)
		go func() {
			_, err := put(t, task, records(0, int64(from+50), numbers(from+50, from+100)...))
			put50 <- err
		}()
		n.run()
		if err := <-put50; err != nil {
			t.Fatal(err)
		}
	}
	commit(t, task, 400)
	wantTexts(t, n.contents(), numbers(0, 400))
}

func TestConnectionsOfTheSinkThatBreak(t *testing.T) {
	n := start(t)
	n.stream(jetstream.StreamConfig{}, 0)
	task := n.sink(toStream(nil), false)
	ctx, cancel := context.WithCancel(t.Context())
	cutting := make(chan struct{})
	go func() {
		defer close(cutting)
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				n.cutOff()
			case <-ctx.Done():
				return
			}
		}
	}()
	for i := range 50 {
		if _, err := put(t, task, records(0, int64(100*i), numbers(100*i, 100*i+100)...)); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	<-cutting
	commit(t, task, 5000)
	wantTexts(t, n.contents(), numbers(0, 5000))
}

// TestNoStream has the stream made only when it was waited for.
func TestNoStream(t *testing.T) {
	n := start(t)
	task := n.sink(toStream(nil), false)
	if _, err := put(t, task, records(0, 0, "a", "b")); err != nil {
		t.Fatal(err)
	}
	p := plugin.TopicPartition{Topic: "orders"}
	safe, w, err := task.PreCommit(t.Context(), map[plugin.TopicPartition]int64{p: 2})
	if err != nil || safe[p] != 0 || w.NextPut <= 0 {
		t.Errorf("safe %v, %+v, %v", safe, w, err)
	}
	n.stream(jetstream.StreamConfig{}, 0)
	commit(t, task, 2)
	wantTexts(t, n.contents(), []string{"a", "b"})
}

func TestRetriesOfTheSinkEnd(t *testing.T) {
	n := start(t)
	task := n.sink(toStream(map[string]string{"max.retries": "2"}), true)
	all := records(0, 0, "a")
	_, err := put(t, task, all)
	for i := 0; err == nil && i < 100; i++ { // what has failed shows when it is waited for
		if _, _, err = task.PreCommit(t.Context(), map[plugin.TopicPartition]int64{{Topic: "orders"}: 1}); err == nil {
			_, err = put(t, task, nil)
		}
	}
	if err == nil || !strings.Contains(err.Error(), "publishing orders-0-0") || !strings.Contains(err.Error(), "no response from stream") {
		t.Error(err)
	}
}

// TestPoison has records that no stream takes, between others.
func TestPoison(t *testing.T) {
	for name, test := range map[string]struct {
		config string // the subject
		spoil  func(r *plugin.SinkRecord)
		want   string
	}{
		"a blank in the key":     {"in.${key}", func(r *plugin.SinkRecord) { r.Key = text("a b") }, "blanks"},
		"a wildcard as key":      {"in.${key}", func(r *plugin.SinkRecord) { r.Key = text(">") }, "wildcard"},
		"an empty key":           {"in.${key}", func(r *plugin.SinkRecord) { r.Key = text("") }, "empty part"},
		"no key":                 {"in.${key}", func(r *plugin.SinkRecord) { r.Key = data.Value{} }, "no key"},
		"more than the server's": {"in.x", func(r *plugin.SinkRecord) { r.Value = text(strings.Repeat("x", 2<<20)) }, "maximum payload"},
		"more than the stream's": {"in.x", func(r *plugin.SinkRecord) { r.Value = text(strings.Repeat("x", 2000)) }, "message size exceeds maximum"},
		"a line break":           {"in.x", func(r *plugin.SinkRecord) { r.Headers = []data.Header{{Name: "h", Value: text("a\r\nb")}} }, "line breaks"},
		"a colon":                {"in.x", func(r *plugin.SinkRecord) { r.Headers = []data.Header{{Name: "h:", Value: text("a")}} }, "no header"},
	} {
		t.Run(name, func(t *testing.T) {
			n := start(t)
			n.stream(jetstream.StreamConfig{MaxMsgSize: 1000}, 0)
			task := n.sink(map[string]string{"subject": test.config}, true)
			all := records(0, 0, "a", "b", "c")
			test.spoil(&all[1])
			errant, err := put(t, task, all)
			if err != nil {
				t.Fatal(err)
			}
			errant = append(errant, commit(t, task, 3)...)
			if len(errant) != 1 || errant[0].Offset != 1 || !strings.Contains(errant[0].Fault, test.want) {
				t.Errorf("%+v", errant)
			}
			wantTexts(t, n.contents(), []string{"a", "c"})

			task = n.sink(map[string]string{"subject": test.config}, false)
			for i := range all {
				all[i].Offset += 10
			}
			for _, err = put(t, task, all); err == nil; _, err = put(t, task, nil) {
				if _, _, err := task.PreCommit(t.Context(), map[plugin.TopicPartition]int64{{Topic: "orders"}: 13}); err != nil {
					t.Fatal(err)
				}
			}
			if !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "orders-0@11") {
				t.Error(err)
			}
		})
	}
}

func TestPartitionsGo(t *testing.T) {
	n := start(t)
	task := n.sink(toStream(nil), false) // there is no stream: nothing is confirmed
	if _, err := put(t, task, append(records(0, 0, "a"), records(1, 0, "b")...)); err != nil {
		t.Fatal(err)
	}
	first := plugin.TopicPartition{Topic: "orders"}
	if safe, _, err := task.PreCommit(t.Context(), map[plugin.TopicPartition]int64{first: 1}); err != nil || safe[first] != 0 {
		t.Fatalf("safe %v, %v", safe, err)
	}
	if _, err := task.Close(t.Context(), []plugin.TopicPartition{first}); err != nil {
		t.Fatal(err)
	}
	n.stream(jetstream.StreamConfig{}, 0)
	for len(n.contents()) == 0 {
		if _, _, err := task.PreCommit(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	wantTexts(t, n.contents(), []string{"b"})
}

// TestSubjectsAsSuch sends records to a subscription and reads them by a source.
func TestSubjectsAsSuch(t *testing.T) {
	n := start(t, func(o *server.Options) { o.JetStream = false })
	r := n.source(map[string]string{"subjects": "in.>,other", "topic": "t", "key.from": "subject"}, "")
	defer r.stop()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	polled := make(chan error, 1)
	go func() { polled <- r.poll(ctx) }()
	n.until(func() (bool, error) { return n.listens(2) })
	task := n.sink(map[string]string{"subject": "in.${topic}", "jetstream.enabled": "false", "max.in.flight": "7"}, false)
	if _, err := put(t, task, records(0, 0, numbers(0, 50)...)); err != nil {
		t.Fatal(err)
	}
	commit(t, task, 50)
	if err := <-polled; err != nil {
		t.Fatal(err)
	}
	got := r.read(50)
	wantNumbers(t, got, 0)
	if got[0].offset != "" || got[0].Key.V != "in.orders" {
		t.Errorf("%+v", got[0])
	}
	// Both go on with a server that was away; what the source missed is not read.
	n.stop()
	go func() { polled <- r.poll(ctx) }()
	n.run()
	n.until(func() (bool, error) {
		select {
		case err := <-polled:
			go func() { polled <- r.poll(ctx) }()
			return false, err
		default:
			return n.listens(2)
		}
	})
	if _, err := put(t, task, records(0, 50, "50")); err != nil {
		t.Fatal(err)
	}
	commit(t, task, 51)
	if err := <-polled; err != nil {
		t.Fatal(err)
	}
	wantNumbers(t, r.read(51), 0)
}

func TestQueueGroups(t *testing.T) {
	n := start(t)
	config := map[string]string{"subjects": "in.*", "topic": "t", "queue.group": "g"}
	configs, err := Source{}.TaskConfigs(t.Context(), n.config(config), 3)
	if err != nil || len(configs) != 3 {
		t.Errorf("%d tasks, %v", len(configs), err)
	}
	delete(config, "queue.group")
	if configs, err := (Source{}).TaskConfigs(t.Context(), n.config(config), 3); err != nil || len(configs) != 1 {
		t.Errorf("%d tasks without a group, %v", len(configs), err)
	}
}

func TestWhoMayConnect(t *testing.T) {
	n := start(t, func(o *server.Options) { o.Username, o.Password = "ana", "secret" })
	n.stream(jetstream.StreamConfig{}, 1)
	right := map[string]string{"nats.user": "ana", "nats.password": "secret"}
	r := n.source(fromStream(right), "")
	r.read(1)
	r.stop()
	if _, err := put(t, n.sink(toStream(right), false), records(0, 0, "a")); err != nil {
		t.Error(err)
	}
	wrong := map[string]string{"nats.user": "ana", "nats.password": "other"}
	r = n.source(fromStream(wrong), "")
	if err := r.poll(t.Context()); err == nil || !strings.Contains(err.Error(), "Authorization") {
		t.Error(err)
	}
	r.stop()
	if _, err := put(t, n.sink(toStream(wrong), false), records(0, 0, "a")); err == nil || !strings.Contains(err.Error(), "Authorization") {
		t.Error(err)
	}
}

func TestConfigurations(t *testing.T) {
	server := map[string]string{"nats.servers": "nats://a:1,b"}
	source := func(more ...string) map[string]string { return pairs(server, append(more, "topic", "t")) }
	sink := func(more ...string) map[string]string { return pairs(server, more) }
	tests := []struct {
		connector plugin.Connector
		config    map[string]string
		key, want string
	}{
		{Source{}, source("subjects", "a.*.>"), "", ""},
		{Source{}, source("stream", "S", "durable", "d"), "", ""},
		{Source{}, source(), "subjects", "at least one"},
		{Source{}, source("subjects", "a..b"), "subjects", "empty part"},
		{Source{}, source("subjects", "a.>.b"), "subjects", "wildcard"},
		{Source{}, source("stream", "S"), "durable", "needs it"},
		{Source{}, source("stream", "S.T", "durable", "d"), "stream", "no dots"},
		{Source{}, source("stream", "S", "durable", "d e"), "durable", "no blanks"},
		{Source{}, source("subjects", "a", "key.from", "header"), "key.header", "needs it"},
		{Source{}, source("subjects", "a", "nats.servers", "http://a"), "nats.servers", "scheme"},
		{Source{}, source("subjects", "a", "nats.servers", "nats://u:secret@a"), "nats.servers", "keys of their own"},
		{Source{}, source("subjects", "a", "nats.user", "u", "nats.token", "t"), "nats.token", "too"},
		{Source{}, source("subjects", "a", "nats.password", "p"), "nats.user", "no user"},
		{Source{}, source("subjects", "a", "tls.ca.file", "/none"), "tls.ca.file", "no such file"},
		{Sink{}, sink("subject", "${topic}.x.${key}"), "", ""},
		{Sink{}, sink("subject", "${subject}"), "subject", "no placeholder"},
		{Sink{}, sink("subject", "a.*"), "subject", "wildcard"},
		{Sink{}, sink("subject", "a b"), "subject", "blanks"},
		{Sink{}, sink("subject", "a", "key.header", "Nats-Msg-Id"), "key.header", "no header"},
	}
	for _, test := range tests {
		faults := faultsOf(t, test.connector, test.config)
		if test.key == "" && len(faults) > 0 || test.key != "" && !strings.Contains(faults[test.key], test.want) {
			t.Errorf("%v: %v", test.config, faults)
		}
		for _, fault := range faults {
			if strings.Contains(fault, "secret") {
				t.Errorf("a secret is shown: %s", fault)
			}
		}
	}
}

func pairs(base map[string]string, more []string) map[string]string {
	all := maps.Clone(base)
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

// FuzzSubjects finds that what takes the place of a key never makes another pattern or an invalid subject.
func FuzzSubjects(f *testing.F) {
	f.Add("a.b")
	f.Add(">")
	f.Add("a\r\nPUB x 1")
	f.Fuzz(func(t *testing.T, key string) {
		subject := "in." + key
		if checkSubject(subject, false) != nil {
			return
		}
		if strings.ContainsAny(subject, " \t\r\n\x00") || !server.IsValidLiteralSubject(subject) {
			t.Errorf("%q is taken", key)
		}
	})
}

func TestConformanceOfTheSink(t *testing.T) {
	n := start(t)
	n.stream(jetstream.StreamConfig{}, 0)
	for _, enabled := range []string{"true", "false"} {
		for _, result := range kit.CheckSink(t.Context(), serve(t, Sink{}), kit.Case{Config: n.config(toStream(map[string]string{"jetstream.enabled": enabled}))}) {
			if result.Fault != nil {
				t.Errorf("%s: %v", result.Name, result.Fault)
			}
		}
	}
}

func BenchmarkSink(b *testing.B) {
	for _, enabled := range []string{"true", "false"} {
		b.Run("jetstream="+enabled, func(b *testing.B) {
			n := start(b)
			n.stream(jetstream.StreamConfig{Storage: jetstream.MemoryStorage, Duplicates: time.Second, MaxAge: time.Second}, 0)
			task := n.sink(toStream(map[string]string{"jetstream.enabled": enabled}), false)
			all := records(0, 0, numbers(0, 500)...)
			for i := range all {
				all[i].Value = text(strings.Repeat("x", 100))
			}
			b.ResetTimer()
			for range b.N {
				if _, err := put(b, task, all); err != nil {
					b.Fatal(err)
				}
				for i := range all {
					all[i].Offset += int64(len(all))
				}
			}
			commit(b, task, int64(b.N*len(all)))
			b.ReportMetric(float64(b.N*len(all))/b.Elapsed().Seconds(), "records/s")
		})
	}
}
