//go:build e2e && linux

// Package network moves messages of NATS and answers of an HTTP server through topics and back, by a real worker, while connections
// break, servers go and come, and tasks are killed.
package network

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cauce-stream/cauce/libs/testport"
	"github.com/cauce-stream/cauce/tests/connectrest"
	"github.com/cauce-stream/cauce/tests/devserver"
	"github.com/cauce-stream/cauce/tests/retry"
)

const (
	messages = 10_000
	rounds   = 5 // of faults
	patience = 2 * time.Minute
)

// pipeline is a node with a Connect worker, a NATS server and an HTTP server.
type pipeline struct {
	*testing.T
	node    *devserver.Server
	connect string
	options server.Options
	nats    *server.Server
	api     *api
}

func start(t *testing.T) *pipeline {
	p := &pipeline{T: t, connect: testport.Address(t), api: &api{last: -1},
		options: server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true}}
	p.runNATS()
	t.Cleanup(func() { p.stopNATS() })
	p.api.Server = httptest.NewServer(p.api)
	t.Cleanup(p.api.Close)
	var err error
	if p.node, err = devserver.Start(context.WithoutCancel(t.Context()), devserver.Options{DataDir: t.TempDir(), Args: []string{"--set", "connect.listeners=http://" + p.connect,
		"--set", "connect.offset.flush.interval.ms=200", "--set", "connect.exactly.once.source.support=enabled"}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.node.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(p.node.Log())
		}
	})
	return p
}

func (p *pipeline) runNATS() {
	options := p.options
	var err error
	if p.nats, err = server.NewServer(&options); err != nil {
		p.Fatal(err)
	}
	p.nats.Start()
	if !p.nats.ReadyForConnections(patience) {
		p.Fatal("NATS does not start")
	}
	p.options.Port = options.Port // clients look for it there
}

func (p *pipeline) stopNATS() {
	p.nats.Shutdown()
	p.nats.WaitForShutdown()
}

// streams is JetStream by a connection of the test's own.
func (p *pipeline) streams() (jetstream.JetStream, func()) {
	c, err := nats.Connect(p.nats.ClientURL())
	if err != nil {
		p.Fatal(err)
	}
	streams, err := jetstream.New(c)
	if err != nil {
		p.Fatal(err)
	}
	return streams, c.Close
}

// publish publishes numbers.
func (p *pipeline) publish(from, to int) {
	streams, done := p.streams()
	defer done()
	for i := from; i < to; i++ {
		if _, err := streams.PublishAsync("in.numbers", fmt.Append(nil, i)); err != nil {
			p.Fatal(err)
		}
		if i%1000 == 999 || i == to-1 {
			<-streams.PublishAsyncComplete()
		}
	}
}

// call sends a request to the worker, which must succeed in the end.
func (p *pipeline) call(method, path string, body any) string {
	p.Helper()
	var out json.RawMessage
	p.eventually(method+" "+path, func(ctx context.Context) error {
		return connectrest.Ask(ctx, http.DefaultClient, method, "http://"+p.connect+path, body, &out)
	})
	return string(out)
}

func (p *pipeline) eventually(what string, try func(context.Context) error) {
	p.Helper()
	if err := retry.Until(p.Context(), patience, try); err != nil {
		p.Fatalf("%s: %v", what, err)
	}
}

// killTasks kills the processes of all tasks, which are children of the node, and returns how many.
func (p *pipeline) killTasks() (killed int) {
	statuses, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		p.Fatal(err)
	}
	for _, path := range statuses {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		after := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if len(after) < 2 || after[1] != strconv.Itoa(p.node.PID()) || !bytes.Contains(text, []byte("(cauce-connector")) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			p.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err == nil { // else it has ended
			killed++
		}
	}
	return killed
}

// restart has all run that has failed.
func (p *pipeline) restart(connectors map[string]map[string]string) {
	p.eventually("running", func(context.Context) error {
		for name := range connectors {
			if status := p.call("GET", "/connectors/"+name+"/status", nil); strings.Contains(status, "FAILED") {
				p.call("POST", "/connectors/"+name+"/restart?includeTasks=true&onlyFailed=true", nil)
				return errors.New(status)
			}
		}
		return nil
	})
}

// api is a server that has a list of numbers, and that takes numbers. It fails now and then.
type api struct {
	*httptest.Server
	mu       sync.Mutex
	requests int
	taken    []int
	last     int // the offset of what was taken last
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the task was killed
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch a.requests++; {
	case a.requests%17 == 0:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case a.requests%23 == 0:
		panic(http.ErrAbortHandler)
	}
	if r.Method == http.MethodGet {
		a.list(w, r)
		return
	}
	if err := a.take(r.Header.Get("Idempotency-Key"), body); err != nil {
		w.WriteHeader(http.StatusUnauthorized) // which fails the task
		fmt.Fprint(w, err)
	}
	if a.requests%29 == 0 {
		panic(http.ErrAbortHandler) // what it has taken comes again
	}
}

func (a *api) list(w http.ResponseWriter, r *http.Request) {
	since, err := strconv.Atoi(r.URL.Query().Get("since"))
	if err != nil {
		since = -1
	}
	var items []string
	for i := since + 1; i <= min(since+300, messages-1); i++ {
		items = append(items, fmt.Sprintf(`{"id":%d}`, i))
	}
	fmt.Fprintf(w, "[%s]", strings.Join(items, ","))
}

// take leaves out what it has, by the offset that the key names.
func (a *api) take(key string, body []byte) error {
	var item struct {
		ID int `json:"id"`
	}
	if err := json.Unmarshal(body, &item); err != nil {
		return err
	}
	offset, err := strconv.Atoi(strings.TrimPrefix(key, "items-0-"))
	if err != nil {
		return err
	}
	if offset > a.last {
		a.taken, a.last = append(a.taken, item.ID), offset
	}
	return nil
}

func (p *pipeline) connectors() map[string]map[string]string {
	nats := map[string]string{"nats.servers": p.nats.ClientURL(), "retry.backoff.ms": "50", "retry.backoff.max.ms": "500", "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter"}
	web := map[string]string{"http.url": p.api.URL, "retry.backoff.ms": "20", "retry.backoff.max.ms": "200", "value.converter": "org.apache.kafka.connect.storage.StringConverter"}
	with := func(base map[string]string, more map[string]string) map[string]string {
		all := maps.Clone(base)
		maps.Copy(all, more)
		return all
	}
	created := map[string]string{"topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1", "exactly.once.support": "required"}
	return map[string]map[string]string{
		"nats-in":  with(with(nats, created), map[string]string{"connector.class": "nats-source", "stream": "IN", "durable": "cauce", "topic": "numbers"}),
		"nats-out": with(nats, map[string]string{"connector.class": "nats-sink", "topics": "numbers", "subject": "out.${topic}", "stream": "OUT"}),
		"http-in": with(with(web, created), map[string]string{"connector.class": "http-source", "topic": "items", "offset.parameter": "since", "offset.pointer": "/id", "value.format": "string",
			"poll.interval.ms": "50", "batch.size": "70"}),
		"http-out": with(web, map[string]string{"connector.class": "http-sink", "topics": "items"}),
	}
}

// TestFaults moves numbers from a stream to a stream and from a list to a server, through topics. All of them arrive once and in
// order, whatever breaks.
func TestFaults(t *testing.T) {
	p := start(t)
	streams, done := p.streams()
	for name, subject := range map[string]string{"IN": "in.>", "OUT": "out.>"} {
		if _, err := streams.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{subject}, Duplicates: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	done()
	connectors := p.connectors()
	for name, config := range connectors {
		p.call("PUT", "/connectors/"+name+"/config", config)
	}
	killed := 0
	for round := range rounds {
		p.publish(messages/rounds*round, messages/rounds*(round+1))
		killed += p.killTasks()
		p.restart(connectors)
		p.stopNATS()
		p.runNATS()
	}
	p.awaitAll(connectors)
	if killed < 2*rounds {
		t.Errorf("only %d tasks were killed", killed)
	}
}

func (p *pipeline) awaitAll(connectors map[string]map[string]string) {
	streams, done := p.streams()
	defer done()
	p.eventually("all numbers", func(ctx context.Context) error {
		p.restart(connectors)
		out, err := streams.Stream(ctx, "OUT")
		if err != nil {
			return err
		}
		p.api.mu.Lock()
		defer p.api.mu.Unlock()
		if state := out.CachedInfo().State; state.Msgs < messages || len(p.api.taken) < messages {
			return fmt.Errorf("%d of %d numbers in the stream, %d in the list", state.Msgs, messages, len(p.api.taken))
		}
		return nil
	})
	consumer, err := streams.OrderedConsumer(p.Context(), "OUT", jetstream.OrderedConsumerConfig{})
	if err != nil {
		p.Fatal(err)
	}
	for i := range messages {
		m, err := consumer.Next()
		if err != nil {
			p.Fatal(err)
		}
		if string(m.Data()) != strconv.Itoa(i) {
			p.Fatalf("message %d of the stream is %s", i, m.Data())
		}
	}
	p.api.mu.Lock()
	defer p.api.mu.Unlock()
	for i, number := range p.api.taken {
		if number != i {
			p.Fatalf("item %d of the list is %d", i, number)
		}
	}
}
