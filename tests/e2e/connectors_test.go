//go:build e2e && linux

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/host"
	"github.com/cauce-stream/cauce/libs/plugin/remote"
)

const connectorLines = 30_000

// pipeline is as little of a worker as takes the lines of a file to another file through a topic, and starts tasks anew that
// have ended.
type pipeline struct {
	t            *testing.T
	host         *host.Host
	in, out      string
	source       *remote.SourceTask
	sink         *remote.SinkTask
	victims      []int                      // the tasks' processes
	offsets      map[string]json.RawMessage // of the source, stored together with its records
	topic        []plugin.SinkRecord
	put          int // records that were put since the sink started
	committed    int // records that the sink need not be put again
	restarts     int
	topicOfLines plugin.TopicPartition
}

// TestFileConnectorsSurviveKills kills tasks with SIGKILL while they move lines: the topic has each line once and in order, the
// file at the end each at least once, and what is repeated follows a crash.
func TestFileConnectorsSurviveKills(t *testing.T) {
	folder := t.TempDir()
	p := &pipeline{t: t, in: filepath.Join(folder, "in"), out: filepath.Join(folder, "out"), offsets: map[string]json.RawMessage{}, topicOfLines: plugin.TopicPartition{Topic: "lines"}}
	var lines bytes.Buffer
	for i := range connectorLines {
		fmt.Fprintf(&lines, "line %d\n", i)
	}
	if err := os.WriteFile(p.in, lines.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if p.host, err = host.New(host.Config{Path: []string{"../../bin/plugins/cauce-connectors"}}, host.Deps{}); err != nil {
		t.Fatal(err)
	}
	defer p.host.Close()
	random := rand.New(rand.NewPCG(1, 1))
	for rounds := 0; len(p.topic) < connectorLines || p.committed < connectorLines; rounds++ {
		p.ensureRunning()
		if random.IntN(12) == 0 && p.restarts < 40 {
			_ = syscall.Kill(p.victims[random.IntN(2)], syscall.SIGKILL) // one that has ended is none
		}
		p.read()
		p.write()
	}
	if p.restarts < 4 {
		t.Errorf("only %d tasks were started anew", p.restarts)
	}
	for _, stop := range []func(context.Context) error{p.source.Stop, p.sink.Stop} {
		_ = stop(t.Context()) // it may have been killed at last
	}
	for i, r := range p.topic {
		if r.Value.V != "line "+strconv.Itoa(i) {
			t.Fatalf("record %d is %v", i, r.Value.V)
		}
	}
	p.checkOutput()
}

// ensureRunning starts what does not run.
func (p *pipeline) ensureRunning() {
	p.t.Helper()
	start := func(class string, started func(context.Context, *host.Connector) error) int {
		c, err := p.host.Connector(p.t.Context(), class)
		if err != nil {
			p.t.Fatal(err)
		}
		before := children(p.t)
		if err := started(p.t.Context(), c); err != nil {
			p.t.Fatal(err)
		}
		for pid := range children(p.t) {
			if !before[pid] && pid != p.host.List()[0].PID {
				return pid
			}
		}
		p.t.Fatal("a task has started without a process")
		return 0
	}
	if p.victims == nil {
		p.victims = make([]int, 2)
	}
	if p.source == nil {
		p.restarts++
		p.victims[0] = start("FileStreamSource", func(ctx context.Context, c *host.Connector) (err error) {
			p.source, err = c.StartSource(ctx, remote.Task{Connector: "in", Config: map[string]string{"file": p.in, "topic": "lines", "batch.size": "200"}, ReadOffsets: p.stored})
			return err
		})
	}
	if p.sink == nil {
		p.restarts++
		p.put = p.committed
		p.victims[1] = start("org.apache.kafka.connect.file.FileStreamSinkConnector", func(ctx context.Context, c *host.Connector) (err error) {
			p.sink, err = c.StartSink(ctx, remote.Task{Connector: "out", Config: map[string]string{"file": p.out}})
			return err
		})
	}
}

func (p *pipeline) stored(_ context.Context, partitions []json.RawMessage) ([]json.RawMessage, error) {
	offsets := make([]json.RawMessage, len(partitions))
	for i, partition := range partitions {
		offsets[i] = p.offsets[string(partition)]
	}
	return offsets, nil
}

// read takes a batch into the topic, together with its offsets.
func (p *pipeline) read() {
	if len(p.topic) == connectorLines {
		return
	}
	batch, err := p.source.Poll(p.t.Context())
	if err != nil {
		p.ended("source", err, p.source.Stop)
		p.source = nil
		return
	}
	for i, r := range batch.Records {
		r.Partition, r.Offset = 0, int64(len(p.topic))
		p.topic = append(p.topic, plugin.SinkRecord{Record: r, Original: p.topicOfLines})
		if partition, offset := batch.Position(i); offset != nil {
			p.offsets[string(partition)] = offset
		}
	}
}

// write puts what is new in the topic, and commits now and then.
func (p *pipeline) write() {
	ctx := p.t.Context()
	next := min(p.put+300, len(p.topic))
	_, err := p.sink.Put(ctx, p.topic[p.put:next])
	if err == nil {
		p.put = next
		if p.put-p.committed > 1000 || p.put == connectorLines {
			var safe map[plugin.TopicPartition]int64
			if safe, _, err = p.sink.PreCommit(ctx, map[plugin.TopicPartition]int64{p.topicOfLines: int64(p.put)}); err == nil {
				p.committed = int(safe[p.topicOfLines])
			}
		}
	}
	if err != nil {
		p.ended("sink", err, p.sink.Stop)
		p.sink = nil
	}
}

// ended wants a task to have ended by being killed.
func (p *pipeline) ended(task string, err error, stop func(context.Context) error) {
	p.t.Helper()
	if !strings.Contains(err.Error(), "cauce-connectors crashed: signal: killed") {
		p.t.Fatalf("%s: %v", task, err)
	}
	if err := stop(p.t.Context()); err == nil {
		p.t.Errorf("%s: a task that was killed has stopped well", task)
	}
}

// checkOutput wants the lines in order, but for repetitions of what was put and not committed; a line that a crash has torn
// is the beginning of the one that was to come.
func (p *pipeline) checkOutput() {
	text, err := os.ReadFile(p.out)
	if err != nil {
		p.t.Fatal(err)
	}
	next, repeated := 0, 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		n, err := strconv.Atoi(strings.TrimPrefix(line, "line "))
		switch {
		case err == nil && n == next:
			next++
		case err == nil && n < next:
			repeated++
		case strings.HasPrefix("line "+strconv.Itoa(next), line):
		default:
			p.t.Fatalf("%q comes before line %d", line, next)
		}
	}
	if next != connectorLines {
		p.t.Errorf("%d of %d lines", next, connectorLines)
	}
	p.t.Logf("%d starts of tasks, %d lines repeated", p.restarts, repeated)
}

// children are the processes that this one has started.
func children(t *testing.T) map[int]bool {
	t.Helper()
	statuses, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	found := map[int]bool{}
	for _, path := range statuses {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// pid (name) state parent …, and a name may have anything in it.
		after := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if len(after) > 1 && after[1] == strconv.Itoa(os.Getpid()) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			if err != nil {
				t.Fatal(err)
			}
			found[pid] = true
		}
	}
	return found
}
