package file

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/libs/plugin/kit"
	"github.com/cauce-stream/cauce/libs/plugin/remote"
)

// serve has a connector to call.
func serve(t testing.TB, c plugin.Connector) kit.Connector {
	t.Helper()
	connector, stop, err := kit.InProcess(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return connector
}

// read starts a source at an offset.
func read(t testing.TB, config map[string]string, offset string) *remote.SourceTask {
	t.Helper()
	task, err := serve(t, Source{}).StartSource(t.Context(), remote.Task{Config: config,
		ReadOffsets: func(_ context.Context, partitions []json.RawMessage) ([]json.RawMessage, error) {
			want, err := json.Marshal(map[string]string{"filename": config["file"]})
			if err != nil || len(partitions) != 1 || string(partitions[0]) != string(want) {
				return nil, errors.New("asked for " + string(partitions[0]))
			}
			return []json.RawMessage{json.RawMessage(offset)}, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	return task
}

// wantLines polls until there are as many lines, and returns the offset after them.
func wantLines(t *testing.T, task *remote.SourceTask, want ...string) string {
	t.Helper()
	var got []string
	var last string
	for len(got) < len(want) {
		batch, err := task.Poll(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range batch.Records {
			if r.Topic != "lines" || r.Partition != data.NoPartition || r.Key.V != nil || r.TimestampMs <= 0 || !r.Value.Schema.Equal(lineSchema) {
				t.Errorf("record %+v", r)
			}
			got = append(got, r.Value.V.(string))
			_, offset := batch.Position(i)
			last = string(offset)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("lines %q, want %q", got, want)
	}
	return last
}

func write(t testing.TB, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestAFileIsFollowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "in.txt")
	config := map[string]string{"file": path, "topic": "lines", "batch.size": "2"}
	task := read(t, config, "") // it is missing still
	write(t, path, "one\ntwo\nthree\nfo")
	wantLines(t, task, "one", "two", "three")
	write(t, path, "ur\nf\xefve\nsix")
	offset := wantLines(t, task, "four", "f\uFFFDve")
	if offset != `{"position":24}` {
		t.Errorf("offset %s", offset)
	}
	if err := task.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	task = read(t, config, offset)
	write(t, path, "\r\n")
	wantLines(t, task, "six")
	if err := task.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAFileThatCannotBeRead(t *testing.T) {
	task := read(t, map[string]string{"file": t.TempDir(), "topic": "lines"}, "")
	var f *remote.Fault
	if _, err := task.Poll(t.Context()); !errors.As(err, &f) || f.Retriable {
		t.Errorf("a folder: %v", err)
	}
	_ = task.Stop(t.Context())
	for _, config := range []map[string]string{{"file": "x"}, {"topic": "x"}, {"file": "", "topic": "x"}, {"file": "x", "topic": "x", "batch.size": "0"}} {
		if v, err := serve(t, Source{}).Validate(t.Context(), config); err != nil || !slices.ContainsFunc(v.Values, func(v configdef.Value) bool { return len(v.Errors) > 0 }) {
			t.Errorf("%v: %+v, %v", config, v, err)
		}
		if _, err := serve(t, Source{}).StartSource(t.Context(), remote.Task{Config: config}); err == nil {
			t.Errorf("started with %v", config)
		}
	}
}

func TestOffsetsThatUsersSet(t *testing.T) {
	tests := []struct{ partition, offset, fault string }{
		{`{"filename":"a"}`, `{"position":0}`, ""},
		{`{"filename":"a"}`, "", ""},
		{`{"file":"a"}`, `{"position":0}`, "partition"},
		{`{"filename":"a"}`, `{"position":-1}`, "offset"},
		{`{"filename":"a"}`, `{"position":"1"}`, "offset"},
		{`{"filename":"a"}`, `{}`, "offset"},
	}
	for _, test := range tests {
		o := plugin.SourceOffset{Partition: json.RawMessage(test.partition)}
		if test.offset != "" {
			o.Offset = json.RawMessage(test.offset)
		}
		handled, err := Source{}.AlterOffsets(t.Context(), nil, []plugin.SourceOffset{o})
		if (err == nil) != (test.fault == "") || err != nil && !strings.HasPrefix(err.Error(), test.fault) || handled != (err == nil) {
			t.Errorf("%s %s: %t, %v", test.partition, test.offset, handled, err)
		}
	}
}

func TestLinesAreAppended(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.txt")
	write(t, path, "torn") // by a crash
	connector := serve(t, Sink{})
	for range 2 {
		task, err := connector.StartSink(t.Context(), remote.Task{Config: map[string]string{"file": path}})
		if err != nil {
			t.Fatal(err)
		}
		records := []plugin.SinkRecord{{Record: data.NewRecord("t", data.Value{}, data.Value{V: "one"})}, {Record: data.NewRecord("t", data.Value{}, data.Value{V: int64(2)})}}
		for _, batch := range [][]plugin.SinkRecord{records, nil} {
			if _, err := task.Put(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
		}
		offsets := map[plugin.TopicPartition]int64{{Topic: "t"}: 2}
		if safe, _, err := task.PreCommit(t.Context(), offsets); err != nil || safe[plugin.TopicPartition{Topic: "t"}] != 2 {
			t.Errorf("safe %v, %v", safe, err)
		}
		if err := task.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "torn\none\n2\none\n2\n" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := connector.StartSink(t.Context(), remote.Task{Config: map[string]string{"file": filepath.Join(path, "x")}}); err == nil {
		t.Error("started with a file that cannot be")
	}
	if configs, err := connector.TaskConfigs(t.Context(), map[string]string{"file": path}, 3); err != nil || len(configs) != 3 {
		t.Errorf("%v, %v", configs, err)
	}
}
