package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/host"
	"github.com/cauce-stream/cauce/services/connect/internal/configs"
	"github.com/cauce-stream/cauce/services/connect/internal/herder"
	"github.com/cauce-stream/cauce/services/connect/internal/offsets"
	"github.com/cauce-stream/cauce/services/connect/internal/workerconfig"
)

func (w *Worker) herderDeps() herder.Deps {
	return herder.Deps{
		WriteConfigs: func(ctx context.Context, r []configs.Record) error { return w.topics.writeConfigs(ctx, r) },
		WriteStatus:  w.writeStatus,
		Validate:     w.plugins.validate,
		TypeOf:       w.plugins.typeOf,
		Restart:      w.restart,
		Offsets:      w.offsets,
		AlterOffsets: w.alterOffsets,
		Fence:        w.fence,
	}
}

// offsets are where a connector stands: a source's in the offset topic, a sink's as its consumer group has committed them.
func (w *Worker) offsets(ctx context.Context, name string, c configs.Config) ([]offsets.Entry, error) {
	c, err := w.plugins.resolve(c)
	if err != nil {
		return nil, err
	}
	connector, err := w.plugins.connector(ctx, c)
	if err != nil {
		return nil, err
	}
	if connector.Source {
		where, err := w.stores.of(ctx, c)
		if err != nil {
			return nil, err
		}
		return where.entries(ctx, name)
	}
	client, err := w.adminClient(c)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	committed, err := committedOffsets(ctx, client, sinkGroup(name, c))
	if err != nil {
		return nil, err
	}
	return offsets.SinkEntries(committed), nil
}

// sinkGroup is the consumer group of a sink's tasks.
func sinkGroup(name string, c configs.Config) string {
	if group := c["consumer.override.group.id"]; group != "" {
		return group
	}
	return "connect-" + name
}

func (w *Worker) adminClient(c configs.Config) (*kadm.Client, error) {
	options, err := w.clientProperties(workerconfig.Admin, overrides(c, "admin.override.")).Common()
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	return kadm.NewClient(client), nil
}

// overrides are the properties of clients that a connector sets for itself, by the rest of their names.
func overrides(c configs.Config, prefix string) map[string]string {
	some := map[string]string{}
	for name, value := range c {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			some[rest] = value
		}
	}
	return some
}

func committedOffsets(ctx context.Context, admin *kadm.Client, group string) (map[offsets.TopicPartition]int64, error) {
	answer, err := admin.FetchOffsets(ctx, group)
	if err == nil {
		err = answer.Error()
	}
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return nil, fmt.Errorf("offsets of group %q: %w", group, err)
	}
	committed := map[offsets.TopicPartition]int64{}
	answer.Each(func(o kadm.OffsetResponse) {
		if o.At >= 0 {
			committed[offsets.TopicPartition{Topic: o.Topic, Partition: o.Partition}] = o.At
		}
	})
	return committed, nil
}

// alterOffsets asks the plugin first: what it refuses stays.
func (w *Worker) alterOffsets(ctx context.Context, name string, c configs.Config, entries []offsets.Entry) (bool, error) {
	resolved, err := w.plugins.resolve(c)
	if err != nil {
		return false, err
	}
	connector, err := w.plugins.connector(ctx, resolved)
	if err != nil {
		return false, err
	}
	if connector.Source {
		return w.alterSource(ctx, name, connector, resolved, entries)
	}
	return w.alterSink(ctx, name, connector, resolved, entries)
}

func (w *Worker) alterSource(ctx context.Context, name string, connector *host.Connector, c configs.Config, entries []offsets.Entry) (bool, error) {
	where, err := w.stores.of(ctx, c)
	if err != nil {
		return false, err
	}
	if entries == nil {
		all, err := where.entries(ctx, name)
		if err != nil {
			return false, err
		}
		for _, e := range all {
			entries = append(entries, offsets.Entry{Partition: e.Partition})
		}
	}
	var told []plugin.SourceOffset
	for _, e := range entries {
		partition, err := json.Marshal(e.Partition)
		if err != nil {
			return false, err
		}
		var offset json.RawMessage
		if e.Offset != nil {
			if offset, err = json.Marshal(e.Offset); err != nil {
				return false, err
			}
		}
		told = append(told, plugin.SourceOffset{Partition: partition, Offset: offset})
	}
	managed, err := connector.AlterSourceOffsets(ctx, c, told)
	if err != nil {
		return false, err
	}
	if _, err := where.get(ctx, name, nil); err != nil { // a key that anyone has written is to be known
		return false, err
	}
	return managed, where.write(ctx, name, entries)
}

func (w *Worker) alterSink(ctx context.Context, name string, connector *host.Connector, c configs.Config, entries []offsets.Entry) (bool, error) {
	client, err := w.adminClient(c)
	if err != nil {
		return false, err
	}
	defer client.Close()
	group := sinkGroup(name, c)
	wanted, err := offsets.ParseSink(entries)
	if err != nil {
		return false, err
	}
	reset := entries == nil
	if reset {
		if wanted, err = committedOffsets(ctx, client, group); err != nil {
			return false, err
		}
		for p := range wanted {
			wanted[p] = offsets.Forget
		}
	}
	told := map[plugin.TopicPartition]int64{}
	for p, offset := range wanted {
		told[plugin.TopicPartition{Topic: p.Topic, Partition: p.Partition}] = offset
	}
	managed, err := connector.AlterSinkOffsets(ctx, c, told)
	if err != nil {
		return false, err
	}
	if reset {
		return managed, deleteGroup(ctx, client, group)
	}
	return managed, errors.Join(commitOffsets(ctx, client, group, wanted), forgetOffsets(ctx, client, group, wanted))
}

// deleteGroup deletes a consumer group. One that there is not has no offsets either.
func deleteGroup(ctx context.Context, admin *kadm.Client, group string) error {
	answer, err := admin.DeleteGroup(ctx, group)
	if err == nil {
		err = answer.Err
	}
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return fmt.Errorf("delete group %q, whose tasks may not have left yet: %w", group, err)
	}
	return nil
}

func commitOffsets(ctx context.Context, admin *kadm.Client, group string, wanted map[offsets.TopicPartition]int64) error {
	var commits kadm.Offsets
	for p, offset := range wanted {
		if offset != offsets.Forget {
			commits.Add(kadm.Offset{Topic: p.Topic, Partition: p.Partition, At: offset, LeaderEpoch: -1})
		}
	}
	if len(commits) == 0 {
		return nil
	}
	answer, err := admin.CommitOffsets(ctx, group, commits)
	if err == nil {
		err = answer.Error()
	}
	if err != nil {
		return fmt.Errorf("commit offsets of group %q, whose tasks may not have left yet: %w", group, err)
	}
	return nil
}

func forgetOffsets(ctx context.Context, admin *kadm.Client, group string, wanted map[offsets.TopicPartition]int64) error {
	var forgotten kadm.TopicsSet
	for p, offset := range wanted {
		if offset == offsets.Forget {
			forgotten.Add(p.Topic, p.Partition)
		}
	}
	if len(forgotten) == 0 {
		return nil
	}
	answer, err := admin.DeleteOffsets(ctx, group, forgotten)
	if err == nil {
		err = answer.Error()
	}
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return fmt.Errorf("delete offsets of group %q, whose tasks may not have left yet: %w", group, err)
	}
	return nil
}
