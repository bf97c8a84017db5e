//go:build e2e && linux

package connect

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/libs/testport"
	"github.com/cauce-stream/cauce/tests/devserver"
)

// single is a node that is all there is, a worker too.
type single struct {
	*stage
	server  *devserver.Server
	options devserver.Options
	folder  string // of notes
}

func startSingle(t *testing.T) *single {
	t.Helper()
	folder, rest := t.TempDir(), "http://"+testport.Address(t)
	s := &single{folder: folder, options: devserver.Options{DataDir: filepath.Join(folder, "data"), Listen: testport.Address(t), Args: []string{
		"--set", "connect.listeners=" + rest, "--set", "connect.plugin.path=" + strings.Join(pluginPath(t), ","), "--set", "connect.offset.flush.interval.ms=300", "--set", "connect.session.timeout.ms=6000",
		"--set", "connect.key.converter=org.apache.kafka.connect.storage.StringConverter", "--set", "connect.value.converter=org.apache.kafka.connect.storage.StringConverter",
	}}}
	s.stage = &stage{T: t, brokers: []string{s.options.Listen}, rest: map[int32]string{1: rest}, http: &http.Client{Timeout: askTimeout}}
	s.start()
	t.Cleanup(func() {
		if err := s.server.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the node said:\n%s", s.server.Log())
		}
	})
	return s
}

func (s *single) start() {
	s.Helper()
	var err error
	// Its end is the test's to ask for.
	if s.server, err = devserver.Start(context.WithoutCancel(s.Context()), s.options); err != nil {
		s.Fatal(err)
	}
}

// create makes a topic of one partition.
func (s *single) create(topic string) {
	s.Helper()
	answer, err := kadm.NewClient(s.client()).CreateTopic(s.Context(), 1, 1, nil, topic)
	if err = errors.Join(err, answer.Err); err != nil {
		s.Fatal(err)
	}
}

// records waits until the only partition of a topic has that many records, and returns all that it has then.
func (s *single) records(topic string, least int) []*kgo.Record {
	s.Helper()
	client := s.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	defer client.Close()
	var end int64
	s.eventually(fmt.Sprintf("%s has %d records", topic, least), func(ctx context.Context) error {
		ends, err := kadm.NewClient(client).ListEndOffsets(ctx, topic)
		if err == nil {
			err = ends.Error()
		}
		if err != nil {
			return err
		}
		if end = ends[topic][0].Offset; end < int64(least) {
			return fmt.Errorf("it has %d", end)
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	var all []*kgo.Record
	for int64(len(all)) < end {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			s.Fatalf("reading %s at %d of %d: %v", topic, len(all), end, err)
		}
		fetches.EachRecord(func(r *kgo.Record) { all = append(all, r) })
	}
	return all[:end]
}

// arrive waits until a task of a sink was put that many records.
func (s *single) arrive(task string, puts int) {
	s.Helper()
	s.eventually(fmt.Sprintf("%s has %d records", task, puts), func(context.Context) error {
		all, err := testimonies(s.folder)
		if err == nil && all[task].puts != puts {
			err = fmt.Errorf("it has %d", all[task].puts)
		}
		return err
	})
}
