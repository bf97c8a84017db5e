package worker

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/services/connect/internal/configs"
	"github.com/cauce-stream/cauce/services/connect/internal/offsets"
	"github.com/cauce-stream/cauce/services/connect/internal/topiclog"
	"github.com/cauce-stream/cauce/services/connect/internal/topicwriter"
	"github.com/cauce-stream/cauce/services/connect/internal/workerconfig"
)

// store is a topic of sources' offsets, and what it says.
type store struct {
	topic
	log  *zap.Logger
	read bool // its reader has begun; guarded by stores.mu

	mu    sync.Mutex
	table *offsets.Table
}

func (w *Worker) newStore(name string, options []kgo.Opt) *store {
	s := &store{log: w.log, table: offsets.New()}
	s.topic = w.newTopic(name, "offset", workerconfig.OffsetTopic, int32(w.config.Values.Int("offset.storage.partitions")), s.follow)
	s.writer = topicwriter.New(topicwriter.Config{Topic: name, Timeout: writeTimeout, Options: options})
	return s
}

func (s *store) follow(r topiclog.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.table.Apply(offsets.Record{Key: r.Key, Value: r.Value}, r.TimestampMs); err != nil {
		s.log.Warn("reading an offset topic", zap.String("topic", s.want.Name), zap.Error(err))
	}
}

// get returns the offsets of some of a source's partitions, in their order, as far as anyone has written them by now; nil for none.
func (s *store) get(ctx context.Context, connector string, partitions []offsets.Map) ([]offsets.Map, error) {
	if err := s.reader.ReadToEnd(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found := make([]offsets.Map, len(partitions))
	for i, p := range partitions {
		found[i] = s.table.Get(connector, p)
	}
	return found, nil
}

// entries are all offsets of a source.
func (s *store) entries(ctx context.Context, connector string) ([]offsets.Entry, error) {
	if err := s.reader.ReadToEnd(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table.Entries(connector), nil
}

// records are what stores an offset of a source.
func (s *store) records(connector string, e offsets.Entry) []offsets.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table.Records(connector, e)
}

func (s *store) write(ctx context.Context, connector string, entries []offsets.Entry) error {
	var raw []topicwriter.Record
	for _, e := range entries {
		for _, r := range s.records(connector, e) {
			raw = append(raw, topicwriter.Record{Key: r.Key, Value: r.Value})
		}
	}
	return s.writer.Write(ctx, raw)
}

// kept is where a source's offsets are: in the worker's own topic, or in one that the connector names (offsets.storage.topic), of which the worker's is a
// copy then. What the connector's topic does not have is looked for in the copy: the connector may not always have named it.
type kept struct {
	log    *zap.Logger
	first  *store
	backup *store // nil without
}

func (k kept) get(ctx context.Context, connector string, partitions []offsets.Map) ([]offsets.Map, error) {
	found, err := k.first.get(ctx, connector, partitions)
	if err != nil || k.backup == nil {
		return found, err
	}
	copies, err := k.backup.get(ctx, connector, partitions)
	for i := range copies {
		if found[i] == nil {
			found[i] = copies[i]
		}
	}
	return found, err
}

func (k kept) entries(ctx context.Context, connector string) ([]offsets.Entry, error) {
	all, err := k.first.entries(ctx, connector)
	if err != nil || k.backup == nil {
		return all, err
	}
	copies, err := k.backup.entries(ctx, connector)
	if err != nil {
		return nil, err
	}
	for _, e := range copies {
		if have, err := k.first.get(ctx, connector, []offsets.Map{e.Partition}); err != nil {
			return nil, err
		} else if have[0] == nil {
			all = append(all, e)
		}
	}
	return all, nil
}

// write stores offsets. What is to be forgotten goes out of the copy first, or that would bring it back; of anything else a copy may be missing.
func (k kept) write(ctx context.Context, connector string, entries []offsets.Entry) error {
	if k.backup == nil {
		return k.first.write(ctx, connector, entries)
	}
	var forgotten, others []offsets.Entry
	for _, e := range entries {
		if e.Offset == nil {
			forgotten = append(forgotten, e)
		} else {
			others = append(others, e)
		}
	}
	if err := k.backup.write(ctx, connector, forgotten); err != nil {
		return err
	}
	if err := k.first.write(ctx, connector, entries); err != nil {
		return err
	}
	k.copy(ctx, connector, others)
	return nil
}

// copy writes what the connector's topic has into the worker's.
func (k kept) copy(ctx context.Context, connector string, entries []offsets.Entry) {
	if k.backup == nil || len(entries) == 0 {
		return
	}
	if err := k.backup.write(ctx, connector, entries); err != nil {
		k.log.Warn("offsets are missing in the worker's topic", zap.String("connector", connector), zap.Error(err))
	}
}

// stores are the offset topics that connectors have named since the worker began.
type stores struct {
	w       *Worker
	options []kgo.Opt

	mu   sync.Mutex
	ctx  context.Context // of the readers; nil before there may be any
	own  map[string]*store
	busy sync.WaitGroup
}

// begin lets readers start, which go on until ctx ends.
func (s *stores) begin(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ctx = ctx
}

// of is where a source's offsets are kept.
func (s *stores) of(ctx context.Context, c configs.Config) (kept, error) {
	k := kept{log: s.w.log, first: s.w.topics.offsets}
	name := strings.TrimSpace(c["offsets.storage.topic"])
	if name == "" || name == k.first.want.Name || s.w.config.Standalone {
		return k, nil
	}
	one, err := s.open(ctx, name)
	if err != nil {
		return k, fmt.Errorf("offsets.storage.topic: %w", err)
	}
	k.first, k.backup = one, k.first
	return k, nil
}

// open returns the store of a topic, which is made if it is not there, or not any more. Nobody else waits for that.
func (s *stores) open(ctx context.Context, name string) (*store, error) {
	one := s.named(name)
	if err := topiclog.Ensure(ctx, one.deps, s.w.config.Values.List("bootstrap.servers"), one.want, retryBackoff); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx == nil || s.ctx.Err() != nil {
		return nil, context.Canceled
	}
	if one.read {
		return one, nil
	}
	one.read = true
	s.busy.Add(1)
	go func() {
		defer s.busy.Done()
		if err := one.reader.Run(s.ctx); err != nil {
			s.w.log.Error("an offset topic is no longer read", zap.String("topic", name), zap.Error(err))
		}
	}()
	return one, nil
}

// named is the one store that there is of a topic.
func (s *stores) named(name string) *store {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.own[name]
	if one == nil {
		one = s.w.newStore(name, s.options)
		s.own[name] = one
	}
	return one
}

// wait returns when the readers have ended.
func (s *stores) wait() {
	s.busy.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.own {
		one.writer.Close()
	}
}
