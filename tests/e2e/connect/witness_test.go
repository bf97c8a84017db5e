//go:build e2e && linux

package connect

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/libs/plugin/data"
)

// Witnesses are connectors that note in a folder when each of their tasks starts and stops, and whether it does so while it runs somewhere else: each
// holds a lock, which the system releases when its process ends.
type witnessSource struct{}
type witnessSink struct{}

const (
	folderKey = "witness.folder"
	taskKey   = "witness.task"
	// refuseKey is a text whose records a sink reports.
	refuseKey = "witness.refuse"
	// largeKey is the size of each tenth record of a source.
	largeKey    = "witness.large"
	notesEnding = ".notes"
)

var witnessDefinition = configdef.Definition{
	{Name: folderKey, Type: configdef.String, Required: true, Importance: configdef.High, Doc: "Where tasks leave notes."},
	{Name: "topic", Type: configdef.String, Default: new(""), Importance: configdef.High, Doc: "Where a source writes to."},
	{Name: refuseKey, Type: configdef.String, Default: new(""), Importance: configdef.Low, Doc: "The text that a sink refuses."},
	{Name: largeKey, Type: configdef.Int, Default: new("0"), Importance: configdef.Low, Doc: "How many bytes each tenth record of a source has."},
}

func (witnessSource) Info() plugin.Info {
	return plugin.Info{Name: "witness-source", Version: "1", Doc: "Numbers its records."}
}
func (witnessSink) Info() plugin.Info {
	return plugin.Info{Name: "witness-sink", Version: "1", Doc: "Notes what is put."}
}
func (witnessSource) Definition() configdef.Definition { return witnessDefinition }
func (witnessSink) Definition() configdef.Definition   { return witnessDefinition }
func (witnessSource) NewSourceTask() plugin.SourceTask { return &witness{} }
func (witnessSink) NewSinkTask() plugin.SinkTask       { return &witnessOfSink{} }

func (witnessSource) Guarantees(map[string]string) plugin.Guarantees {
	return plugin.Guarantees{ExactlyOnce: true}
}

func (witnessSource) TaskConfigs(_ context.Context, c map[string]string, most int) ([]map[string]string, error) {
	return divide(c, most), nil
}

func (witnessSink) TaskConfigs(_ context.Context, c map[string]string, most int) ([]map[string]string, error) {
	return divide(c, most), nil
}

func divide(c map[string]string, most int) []map[string]string {
	all := make([]map[string]string, most)
	for i := range all {
		all[i] = map[string]string{taskKey: strconv.Itoa(i)}
		for k, v := range c {
			all[i][k] = v
		}
	}
	return all
}

func (witnessSource) AlterOffsets(context.Context, map[string]string, []plugin.SourceOffset) (bool, error) {
	return true, nil
}

// witness is a task of a source.
type witness struct {
	notes     *os.File
	lock      *os.File
	topic     string
	task      string
	large     int
	partition *plugin.SourcePartition
	at        struct {
		Next int64 `json:"next"`
	}
}

// open takes the lock and notes the start.
func (w *witness) open(name string, task int, c map[string]string) (err error) {
	w.task = c[taskKey]
	path := filepath.Join(c[folderKey], name+"-"+strconv.Itoa(task))
	if w.notes, err = os.OpenFile(path+notesEnding, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	if w.lock, err = os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return err
	}
	err = syscall.Flock(int(w.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		w.note("twice")
		return fmt.Errorf("task %s-%d runs already", name, task)
	} else if err != nil {
		return err
	}
	w.note("start")
	return nil
}

func (w *witness) note(text string) {
	fmt.Fprintf(w.notes, "%d %d %s\n", time.Now().UnixMilli(), os.Getpid(), text)
}

// Stop notes it and gives the lock up.
func (w *witness) Stop() error {
	if w.lock == nil {
		return nil
	}
	w.note("stop")
	return errors.Join(w.lock.Close(), w.notes.Close())
}

// Start goes on after the last number that is stored.
func (w *witness) Start(ctx context.Context, c *plugin.SourceContext, config map[string]string) error {
	if err := w.open(c.Name(), c.Task(), config); err != nil {
		return err
	}
	w.topic = config["topic"]
	var err error
	if large := config[largeKey]; large != "" {
		if w.large, err = strconv.Atoi(large); err != nil {
			return err
		}
	}
	if w.partition, err = c.Partition(ctx, map[string]string{"task": w.task}); err != nil {
		return err
	}
	_, err = w.partition.Offset(&w.at)
	return err
}

// Poll returns one record each 50 ms: task and number.
func (w *witness) Poll(ctx context.Context) ([]plugin.SourceRecord, error) {
	pause(ctx, 50*time.Millisecond)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	text := w.task + ":" + strconv.FormatInt(w.at.Next, 10)
	value := text
	if w.large > 0 && w.at.Next%10 == 9 {
		value += strings.Repeat(".", w.large)
	}
	w.at.Next++
	return []plugin.SourceRecord{{Record: data.NewRecord(w.topic, data.Value{V: text}, data.Value{V: value}), Source: w.partition, Offset: w.at}}, nil
}

// witnessOfSink is a task of a sink.
type witnessOfSink struct {
	witness
	context *plugin.SinkContext
	refuse  string
}

func (w *witnessOfSink) Start(_ context.Context, c *plugin.SinkContext, config map[string]string) error {
	w.context, w.refuse = c, config[refuseKey]
	return w.open(c.Name(), c.Task(), config)
}

// Put notes each value.
func (w *witnessOfSink) Put(_ context.Context, records []plugin.SinkRecord) error {
	for i := range records {
		text := fmt.Sprint(records[i].Value.V)
		if w.refuse != "" && strings.Contains(text, w.refuse) {
			if err := w.context.Report(&records[i], errors.New("it is refused")); err != nil {
				return err
			}
			continue
		}
		w.note("put " + text)
	}
	return nil
}
