//go:build e2e && linux

// Package postgres runs the connectors of PostgreSQL as Cauce does, in processes of their own, against a server.
package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/libs/plugin/host"
	"github.com/cauce-stream/cauce/libs/plugin/remote"
	"github.com/cauce-stream/cauce/tests/postgres"
)

// server is the one of all tests, each of which has a database of its own.
var server *postgres.Server

func TestMain(m *testing.M) {
	var err error
	if server, err = postgres.New(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := server.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// bench is a database with what a test does to it and to the connectors.
type bench struct {
	*testing.T
	name string
	url  string
	host *host.Host
}

func setUp(t *testing.T, sql string) *bench {
	t.Helper()
	b := &bench{T: t, name: fmt.Sprintf("test_%d", time.Now().UnixNano())}
	execute(t, server.URL(), "CREATE DATABASE "+b.name)
	b.url = server.Database(b.name)
	if sql != "" {
		b.exec(sql)
	}
	var err error
	if b.host, err = host.New(host.Config{Path: []string{"../../../bin/plugins/cauce-connectors"}}, host.Deps{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.host.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func execute(t testing.TB, url, sql string) []*pgconn.Result {
	t.Helper()
	conn, err := pgconn.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	results, err := conn.Exec(t.Context(), sql).ReadAll()
	if err = errors.Join(err, conn.Close(t.Context())); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return results
}

func (b *bench) exec(sql string) { b.Helper(); execute(b.T, b.url, sql) }

// rows returns what a query returns, each row as a line of its columns.
func (b *bench) rows(sql string) []string {
	b.Helper()
	lines := []string{}
	for _, row := range execute(b.T, b.url, sql)[0].Rows {
		line := ""
		for i, value := range row {
			if i > 0 {
				line += "|"
			}
			if value == nil {
				line += "null"
			}
			line += string(value)
		}
		lines = append(lines, line)
	}
	return lines
}

// source is a connector with its tasks, and what a worker keeps for it: the offsets, stored together with records.
type source struct {
	*bench
	class   string
	config  map[string]string
	tasks   []*remote.SourceTask
	offsets map[string]json.RawMessage
	records []data.Record
}

func (b *bench) source(config map[string]string) *source {
	s := &source{bench: b, class: "io.confluent.connect.jdbc.JdbcSourceConnector", offsets: map[string]json.RawMessage{},
		config: map[string]string{"connection.url": b.url, "topic.prefix": "db.", "poll.interval.ms": "20"}}
	for name, value := range config {
		s.config[name] = value
	}
	b.Cleanup(s.stop)
	return s
}

func (s *source) connector() *host.Connector {
	s.Helper()
	c, err := s.host.Connector(s.Context(), s.class)
	if err != nil {
		s.Fatal(err)
	}
	return c
}

// start starts its tasks, at most so many.
func (s *source) start(most int) *source {
	s.Helper()
	configs, err := s.connector().TaskConfigs(s.Context(), s.config, most)
	if err != nil {
		s.Fatal(err)
	}
	for i, config := range configs {
		task, err := s.connector().StartSource(s.Context(), remote.Task{Connector: "db", Number: i, Config: config, ReadOffsets: s.stored})
		if err != nil {
			s.Fatal(err)
		}
		s.tasks = append(s.tasks, task)
	}
	return s
}

func (s *source) stop() {
	for _, task := range s.tasks {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		if err := task.Stop(ctx); err != nil {
			s.Error(err)
		}
		cancel()
	}
	s.tasks = nil
}

func (s *source) stored(_ context.Context, partitions []json.RawMessage) ([]json.RawMessage, error) {
	offsets := make([]json.RawMessage, len(partitions))
	for i, partition := range partitions {
		offsets[i] = s.offsets[string(partition)]
	}
	return offsets, nil
}

// poll takes a batch of a task, together with its offsets.
func (s *source) poll(task *remote.SourceTask, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(s.Context(), limit)
	defer cancel()
	batch, err := task.Poll(ctx)
	if err != nil {
		return err
	}
	for i, r := range batch.Records {
		if err := r.Value.Validate(); err != nil {
			s.Fatalf("record %v: %v", r, err)
		}
		s.records = append(s.records, r)
		if partition, offset := batch.Position(i); offset != nil {
			s.offsets[string(partition)] = offset
		}
	}
	return nil
}

// read takes records from all tasks until there are as many, and then until there are no more for a moment.
func (s *source) read(want int) []data.Record {
	s.Helper()
	s.records = nil
	deadline := time.Now().Add(30 * time.Second)
	for len(s.records) < want {
		for _, task := range s.tasks {
			s.mayPoll(task, 100*time.Millisecond)
		}
		if time.Now().After(deadline) {
			s.Fatalf("%d of %d records", len(s.records), want)
		}
	}
	for _, task := range s.tasks {
		s.mayPoll(task, 200*time.Millisecond)
	}
	if len(s.records) != want {
		s.Fatalf("%d records, not %d", len(s.records), want)
	}
	return s.records
}

func (s *source) mayPoll(task *remote.SourceTask, limit time.Duration) {
	s.Helper()
	err := s.poll(task, limit)
	var f *remote.Fault
	if err != nil && !errors.Is(err, context.DeadlineExceeded) && !(errors.As(err, &f) && f.Retriable) {
		s.Fatal(err)
	}
}

// field returns a field of each record.
func field(records []data.Record, name string) []any {
	values := []any{}
	for _, r := range records {
		value, _ := r.Value.V.(*data.Struct).Get(name)
		values = append(values, value)
	}
	return values
}
