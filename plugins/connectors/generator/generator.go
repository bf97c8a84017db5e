// Package generator is a source of test data: as many records as are wanted, as fast as they are wanted, and always the same.
package generator

import (
	"context"
	"fmt"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/libs/plugin/data"
)

// The keys of a configuration.
const (
	topicKey  = "topic"
	formatKey = "format"
	sizeKey   = "value.size"
	keysKey   = "keys"
	rateKey   = "rate"
	countKey  = "count"
	batchKey  = "batch.size"
	seedKey   = "seed"

	// taskKey is what tasks get besides: their number, by which their records differ.
	taskKey = "generator.task"
)

// maxBatchBytes bounds the texts of a batch, where one alone is not larger.
const maxBatchBytes = 4 << 20

var definition = configdef.Definition{
	{Name: topicKey, Type: configdef.String, Required: true, Importance: configdef.High, Doc: "The topic to write to.", Valid: configdef.Rule{NonEmpty: true}},
	{Name: formatKey, Type: configdef.String, Default: new(formatText), Importance: configdef.Medium, Dependents: []string{sizeKey},
		Doc:   "What values are: text of letters and digits, or bytes, of a size; or orders, structs with a schema.",
		Valid: configdef.Rule{OneOf: []string{formatText, formatBytes, formatOrder}}},
	{Name: sizeKey, Type: configdef.Int, Default: new("100"), Importance: configdef.Medium, Doc: "How many bytes a text or bytes have.",
		Valid: configdef.Rule{Min: new(0.0), Max: new(16.0 * (1 << 20))}},
	{Name: keysKey, Type: configdef.Int, Default: new("0"), Importance: configdef.Medium, Doc: "Among how many keys records are spread; 0 for records without a key.",
		Valid: configdef.Rule{Min: new(0.0)}},
	{Name: rateKey, Type: configdef.Double, Default: new("0"), Importance: configdef.High, Doc: "Records a second, of each task; 0 for as many as can be stored.",
		Valid: configdef.Rule{Min: new(0.0)}},
	{Name: countKey, Type: configdef.Long, Default: new("0"), Importance: configdef.Medium, Doc: "After how many records each task is done; 0 for never.",
		Valid: configdef.Rule{Min: new(0.0)}},
	{Name: batchKey, Type: configdef.Int, Default: new("500"), Importance: configdef.Low, Doc: "At most so many records come at once.",
		Valid: configdef.Rule{Min: new(1.0), Max: new(100_000.0)}},
	{Name: seedKey, Type: configdef.Long, Default: new("0"), Importance: configdef.Low, Doc: "Another seed makes other records."},
}

// Source generates records.
type Source struct{}

// Info names it "generator".
func (Source) Info() plugin.Info {
	return plugin.Info{Name: "generator", Version: "1.0.0", Doc: "Generates test data, the same for the same seed."}
}

// Definition is the keys of its configuration.
func (Source) Definition() configdef.Definition { return definition }

// Validate hides the size where values have their own.
func (Source) Validate(_ context.Context, config map[string]string) ([]configdef.Finding, error) {
	if config[formatKey] == formatOrder {
		return []configdef.Finding{{Name: sizeKey, Hidden: true}}, nil
	}
	return nil, nil
}

// TaskConfigs returns as many as are allowed. Each has the rate and the count.
func (Source) TaskConfigs(_ context.Context, config map[string]string, maxTasks int) ([]map[string]string, error) {
	configs := make([]map[string]string, maxTasks)
	for i := range configs {
		configs[i] = map[string]string{taskKey: fmt.Sprint(i)}
		for k, v := range config {
			if k != taskKey {
				configs[i][k] = v
			}
		}
	}
	return configs, nil
}

// Guarantees says that records are there once: what they are follows from their number.
func (Source) Guarantees(map[string]string) plugin.Guarantees {
	return plugin.Guarantees{ExactlyOnce: true}
}

// NewSourceTask returns a task.
func (Source) NewSourceTask() plugin.SourceTask { return &task{} }

// place is the partition of a source: a task.
type place struct {
	Task string `json:"task"`
}

// progress is how far a task is.
type progress struct {
	Next int64 `json:"next"` // the number of the next record
}

type task struct {
	topic     string
	records   maker
	pace      pace
	count     int64
	batchSize int64
	partition *plugin.SourcePartition
	progress
}

// Start goes on where the task was.
func (t *task) Start(ctx context.Context, c *plugin.SourceContext, config map[string]string) error {
	v, err := definition.Parse(config)
	if err != nil {
		return err
	}
	t.topic, t.count = v.String(topicKey), v.Int(countKey)
	t.batchSize = min(v.Int(batchKey), max(maxBatchBytes/max(v.Int(sizeKey), 1), 1))
	t.records = maker{format: v.String(formatKey), size: int(v.Int(sizeKey)), keys: v.Int(keysKey), seed: uint64(v.Int(seedKey)), task: config[taskKey]}
	if t.partition, err = c.Partition(ctx, place{config[taskKey]}); err != nil {
		return err
	}
	if _, err = t.partition.Offset(&t.progress); err != nil {
		return err
	}
	t.pace = pace{began: time.Now(), perSecond: v.Float(rateKey)}
	return nil
}

// Poll returns the records that are due.
func (t *task) Poll(ctx context.Context) ([]plugin.SourceRecord, error) {
	left := t.batchSize
	if t.count > 0 {
		left = min(left, t.count-t.Next)
	}
	if left <= 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	due := t.pace.due(time.Now())
	if due <= 0 {
		timer := time.NewTimer(t.pace.wait(time.Now()))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if due = t.pace.due(time.Now()); due <= 0 {
			return nil, nil
		}
	}
	records := make([]plugin.SourceRecord, min(left, due))
	now := time.Now().UnixMilli()
	for i := range records {
		key, value := t.records.record(t.Next)
		r := data.NewRecord(t.topic, key, value)
		r.TimestampMs = now
		t.Next++
		records[i] = plugin.SourceRecord{Record: r, Source: t.partition}
	}
	records[len(records)-1].Offset = t.progress
	t.pace.passed += int64(len(records))
	return records, nil
}

// Stop has nothing to do.
func (t *task) Stop() error { return nil }
