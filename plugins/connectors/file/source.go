// Package file has the connectors between a file of lines and a topic. They read the configurations of Apache Kafka's
// FileStreamSource and FileStreamSink, and keep the same offsets.
package file

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/libs/plugin/data"
)

// The keys of configurations.
const (
	fileKey  = "file"
	topicKey = "topic"
	batchKey = "batch.size"
)

const (
	// lookInterval is how often a file is looked at for more: not every system gives notice of that.
	lookInterval = 100 * time.Millisecond
	// maxBatchBytes bounds what one Poll reads, the last line apart.
	maxBatchBytes = 4 << 20
)

var sourceDefinition = configdef.Definition{
	{Name: fileKey, Type: configdef.String, Required: true, Importance: configdef.High, Valid: configdef.Rule{NonEmpty: true},
		Doc: "The file to read. It may be missing still. It must only grow."},
	{Name: topicKey, Type: configdef.String, Required: true, Importance: configdef.High, Valid: configdef.Rule{NonEmpty: true},
		Doc: "The topic to write lines to."},
	{Name: batchKey, Type: configdef.Int, Default: new("2000"), Importance: configdef.Low, Valid: configdef.Rule{Min: new(1.0), Max: new(100_000.0)},
		Doc: "At most so many lines come at once."},
}

// lineSchema is the schema of a line.
var lineSchema = &data.Schema{Type: data.TypeString}

// Source reads the lines of a file, and those that are appended.
type Source struct{}

// Info names it "file-source".
func (Source) Info() plugin.Info {
	return plugin.Info{Name: "file-source", Version: "1.0.0", Doc: "Reads the lines of a file, and follows it as it grows.",
		Aliases: []string{"org.apache.kafka.connect.file.FileStreamSourceConnector"}}
}

// Definition is the keys of its configuration.
func (Source) Definition() configdef.Definition { return sourceDefinition }

// TaskConfigs returns one: a file is read from one end to the other.
func (Source) TaskConfigs(_ context.Context, config map[string]string, _ int) ([]map[string]string, error) {
	return []map[string]string{config}, nil
}

// Guarantees says that a line is there once: its place in the file does not change.
func (Source) Guarantees(map[string]string) plugin.Guarantees {
	return plugin.Guarantees{ExactlyOnce: true}
}

// AlterOffsets refuses places that no file has. There are no offsets besides Cauce's.
func (Source) AlterOffsets(_ context.Context, _ map[string]string, offsets []plugin.SourceOffset) (bool, error) {
	for _, o := range offsets {
		var p place
		if err := json.Unmarshal(o.Partition, &p); err != nil || p.File == "" {
			return false, fmt.Errorf("partition %s: {\"filename\": \"…\"} is wanted", o.Partition)
		}
		if o.Offset == nil {
			continue
		}
		var at struct {
			Position *int64 `json:"position"`
		}
		if err := json.Unmarshal(o.Offset, &at); err != nil || at.Position == nil || *at.Position < 0 {
			return false, fmt.Errorf("offset %s of %s: {\"position\": …} with a number of bytes is wanted", o.Offset, p.File)
		}
	}
	return true, nil
}

// NewSourceTask returns a task.
func (Source) NewSourceTask() plugin.SourceTask { return &sourceTask{} }

// place is the partition of the source, in Kafka's words.
type place struct {
	File string `json:"filename"`
}

// position is how far the file was read, in bytes.
type position struct {
	Position int64 `json:"position"`
}

// text is the JSON of a position, of which each line has one.
func (p position) text() json.RawMessage {
	const before = `{"position":`
	return append(strconv.AppendInt(append(make([]byte, 0, len(before)+20), before...), p.Position, 10), '}')
}

type sourceTask struct {
	path      string
	topic     string
	batch     int
	partition *plugin.SourcePartition
	at        position // where the next line begins
	file      *os.File // nil until it is there
	lines     lines
	last      int  // lines of the last batch: the next one is likely to have as many
	missed    bool // that it is missing was logged
}

// Start goes on where the file was read to.
func (t *sourceTask) Start(ctx context.Context, c *plugin.SourceContext, config map[string]string) error {
	v, err := sourceDefinition.Parse(config)
	if err != nil {
		return err
	}
	t.path, t.topic, t.batch = v.String(fileKey), v.String(topicKey), int(v.Int(batchKey))
	if t.partition, err = c.Partition(ctx, place{t.path}); err != nil {
		return err
	}
	_, err = t.partition.Offset(&t.at)
	return err
}

// Poll returns the lines that are there, and waits while there are none.
func (t *sourceTask) Poll(ctx context.Context) ([]plugin.SourceRecord, error) {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		records, err := t.read(ctx)
		if len(records) > 0 || err != nil {
			return records, err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (t *sourceTask) read(ctx context.Context) ([]plugin.SourceRecord, error) {
	if t.file == nil {
		if err := t.open(ctx); err != nil || t.file == nil {
			return nil, err
		}
	}
	records := make([]plugin.SourceRecord, 0, t.last)
	now := time.Now().UnixMilli()
	for bytes := 0; len(records) < t.batch && bytes < maxBatchBytes; {
		line, size, err := t.lines.next(t.file)
		if err != nil {
			return nil, fmt.Errorf("%s at byte %d: %w", t.path, t.at.Position, err)
		}
		if size == 0 {
			break
		}
		t.at.Position += int64(size)
		bytes += size
		text := string(line)
		if !utf8.ValidString(text) {
			text = strings.ToValidUTF8(text, "\uFFFD")
		}
		r := data.NewRecord(t.topic, data.Value{}, data.Value{Schema: lineSchema, V: text})
		r.TimestampMs = now
		records = append(records, plugin.SourceRecord{Record: r, Source: t.partition, Offset: t.at.text()})
	}
	t.last = len(records)
	return records, nil
}

// open opens the file if it is there.
func (t *sourceTask) open(ctx context.Context) error {
	file, err := os.Open(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		if !t.missed {
			slog.WarnContext(ctx, "waiting for a file that is missing", "file", t.path)
			t.missed = true
		}
		return nil
	} else if err != nil {
		return err
	}
	if _, err := file.Seek(t.at.Position, io.SeekStart); err != nil {
		return errors.Join(err, file.Close())
	}
	t.file = file
	return nil
}

// Stop closes the file.
func (t *sourceTask) Stop() error {
	if t.file == nil {
		return nil
	}
	return t.file.Close()
}
