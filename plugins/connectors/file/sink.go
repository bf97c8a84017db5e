package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/configdef"
)

var sinkDefinition = configdef.Definition{
	{Name: fileKey, Type: configdef.String, Required: true, Importance: configdef.High, Valid: configdef.Rule{NonEmpty: true},
		Doc: "The file to append to. It is made when it is missing. Several tasks may append to one."},
}

// maxKeptBytes bounds the memory for lines that is kept from one batch to the next.
const maxKeptBytes = 4 << 20

// Sink appends the values of records to a file, a line each.
type Sink struct{}

// Info names it "file-sink".
func (Sink) Info() plugin.Info {
	return plugin.Info{Name: "file-sink", Version: "1.0.0", Doc: "Appends the values of records to a file, a line each.",
		Aliases: []string{"org.apache.kafka.connect.file.FileStreamSinkConnector"}}
}

// Definition is the keys of its configuration.
func (Sink) Definition() configdef.Definition { return sinkDefinition }

// TaskConfigs returns as many as are allowed: lines are appended whole.
func (Sink) TaskConfigs(_ context.Context, config map[string]string, maxTasks int) ([]map[string]string, error) {
	configs := make([]map[string]string, maxTasks)
	for i := range configs {
		configs[i] = config
	}
	return configs, nil
}

// AlterOffsets has nothing to do: there are no offsets besides Cauce's.
func (Sink) AlterOffsets(context.Context, map[string]string, map[plugin.TopicPartition]int64) (bool, error) {
	return true, nil
}

// NewSinkTask returns a task.
func (Sink) NewSinkTask() plugin.SinkTask { return &sinkTask{} }

type sinkTask struct {
	file  *os.File
	lines []byte
	dirty bool // something was written since the last Flush
}

// Start opens the file, and ends a line that was torn by a crash.
func (t *sinkTask) Start(_ context.Context, _ *plugin.SinkContext, config map[string]string) error {
	v, err := sinkDefinition.Parse(config)
	if err != nil {
		return err
	}
	if t.file, err = os.OpenFile(v.String(fileKey), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644); err != nil {
		return err
	}
	torn, err := endsTorn(t.file)
	if err == nil && torn {
		_, err = t.file.WriteString("\n")
	}
	return err
}

func endsTorn(f *os.File) (bool, error) {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false, err
	}
	var last [1]byte
	if _, err := f.ReadAt(last[:], info.Size()-1); err != nil {
		return false, err
	}
	return last[0] != '\n', nil
}

// Put appends all lines by one write, so that those of other tasks do not come between the parts of one.
func (t *sinkTask) Put(_ context.Context, records []plugin.SinkRecord) error {
	lines := t.lines[:0]
	for i := range records {
		lines = append(appendText(lines, records[i].Value.V), '\n')
	}
	if cap(lines) <= maxKeptBytes {
		t.lines = lines
	}
	if len(lines) == 0 {
		return nil
	}
	t.dirty = true
	if _, err := t.file.Write(lines); err != nil {
		return fmt.Errorf("appending %d lines: %w", len(records), err)
	}
	return nil
}

// Flush has the lines on disk before their offsets are committed.
func (t *sinkTask) Flush(context.Context, map[plugin.TopicPartition]int64) error {
	if !t.dirty {
		return nil
	}
	// What is no file, a terminal or a pipe, has no disk.
	if err := t.file.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) {
		return err
	}
	t.dirty = false
	return nil
}

// Stop closes the file.
func (t *sinkTask) Stop() error {
	if t.file == nil {
		return nil
	}
	return t.file.Close()
}
