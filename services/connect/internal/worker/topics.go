package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/cauce-stream/cauce/libs/kafka/client"
	"github.com/cauce-stream/cauce/services/connect/internal/clientconfig"
	"github.com/cauce-stream/cauce/services/connect/internal/configs"
	"github.com/cauce-stream/cauce/services/connect/internal/locallog"
	"github.com/cauce-stream/cauce/services/connect/internal/offsets"
	"github.com/cauce-stream/cauce/services/connect/internal/status"
	"github.com/cauce-stream/cauce/services/connect/internal/topiclog"
	"github.com/cauce-stream/cauce/services/connect/internal/topicwriter"
	"github.com/cauce-stream/cauce/services/connect/internal/work"
	"github.com/cauce-stream/cauce/services/connect/internal/workerconfig"
)

const (
	// fetchWait is how long a broker holds a fetch of an internal topic that has nothing new.
	fetchWait = 500 * time.Millisecond
	// maxFetchBytes bounds what is read of an internal topic at once.
	maxFetchBytes = 4 << 20
	// writeTimeout bounds writing to an internal topic.
	writeTimeout = 30 * time.Second
)

// topics are the three internal topics: what they say goes to the herder, the crew and the table of offsets.
type topics struct {
	w       *Worker
	configs topic
	status  topic
	offsets *store
	// plain writes what any worker may write to the config topic; the leader writes in transactions where exactly.once.source.support is not disabled.
	plain writer

	mu sync.Mutex
	// live is set once the config topic has been read to its end: requests in it from before then are over.
	live bool
	// claimed says that this worker has ended the transactions of earlier leaders since it leads, and has written nothing in vain since then.
	claimed bool
}

// topic is one of them, or the log that a worker has in its place that stands alone.
type topic struct {
	want   topiclog.Topic
	deps   topiclog.Deps
	reader reader
	writer writer
}

// reader shows what is in a topic: a topiclog.Reader or a locallog.Log.
type reader interface {
	Run(ctx context.Context) error
	ReadToEnd(ctx context.Context) error
}

// writer appends to a topic: a topicwriter.Writer or a locallog.Log.
type writer interface {
	Write(ctx context.Context, records []topicwriter.Record) error
	Claim(ctx context.Context) error
	Close()
}

func (w *Worker) newTopics() (*topics, error) {
	t := &topics{w: w}
	transactional := ""
	if w.config.Values.String("exactly.once.source.support") != "disabled" {
		transactional = "connect-cluster-" + w.config.Values.String("group.id")
	}
	if w.config.Standalone {
		return t, t.openLocal()
	}
	options, err := w.clientProperties(workerconfig.Producer, nil).Common()
	if err != nil {
		return nil, err
	}
	options = append(options, kgo.ClientID(w.clientID()))
	for _, one := range []struct {
		topic         *topic
		name          string
		family        string
		partitions    int32
		transactional string
		visit         func(topiclog.Record)
	}{
		{&t.configs, "config", workerconfig.ConfigTopic, 1, transactional, t.followConfig},
		{&t.status, "status", workerconfig.StatusTopic, int32(w.config.Values.Int("status.storage.partitions")), "", t.followStatus},
	} {
		*one.topic = w.newTopic(w.config.Values.String(one.name+".storage.topic"), one.name, one.family, one.partitions, one.visit)
		one.topic.writer = topicwriter.New(topicwriter.Config{
			Topic: one.topic.want.Name, TransactionalID: one.transactional, Timeout: writeTimeout, Options: options,
		})
	}
	t.offsets = w.newStore(w.config.Values.String("offset.storage.topic"), options)
	w.stores = &stores{w: w, options: options, own: map[string]*store{}}
	t.plain = t.configs.writer
	if transactional != "" {
		t.plain = topicwriter.New(topicwriter.Config{Topic: t.configs.want.Name, Timeout: writeTimeout, Options: options})
	}
	return t, nil
}

// openLocal has logs in place of topics.
func (t *topics) openLocal() error {
	t.w.stores = &stores{w: t.w, own: map[string]*store{}}
	t.offsets = &store{log: t.w.log, table: offsets.New()}
	for _, one := range []struct {
		topic *topic
		file  string
		visit func(topiclog.Record)
	}{{&t.configs, "", t.followConfig}, {&t.status, "", t.followStatus}, {&t.offsets.topic, t.w.config.Values.String("offset.storage.file.filename"), t.offsets.follow}} {
		l, err := locallog.Open(one.file, one.visit)
		if err != nil {
			return fmt.Errorf("offset.storage.file.filename: %w", err)
		}
		one.topic.reader, one.topic.writer = l, l
	}
	t.plain = t.configs.writer
	return nil
}

func (w *Worker) newTopic(name, kind, family string, partitions int32, visit func(topiclog.Record)) topic {
	v := w.config.Values
	settings := v.Family(family)
	delete(settings, "partitions")
	delete(settings, "cleanup.policy")
	want := topiclog.Topic{
		Name: name, Partitions: partitions, ReplicationFactor: int16(v.Int(kind + ".storage.replication.factor")),
		Settings: settings, Single: kind == "config",
	}
	pool := client.New(client.Config{ClientID: w.clientID(), RequestTimeout: fetchWait + answerMargin})
	w.mu.Lock()
	w.fetching = append(w.fetching, pool)
	w.mu.Unlock()
	deps := topiclog.Deps{Log: w.log, Do: w.group.Do, Fetch: pool.Do}
	return topic{want: want, deps: deps, reader: topiclog.NewReader(topiclog.Config{
		Topic: want.Name, Bootstrap: v.List("bootstrap.servers"), Committed: true, MaxWait: fetchWait, RetryBackoff: retryBackoff, MaxBytes: maxFetchBytes,
	}, deps, visit)}
}

// clientProperties are those of a client of the worker or, with overrides, of a connector.
func (w *Worker) clientProperties(family string, overrides map[string]string) clientconfig.Properties {
	v := w.config.Values
	p := clientconfig.Properties{"bootstrap.servers": strings.Join(v.List("bootstrap.servers"), ",")}
	for _, shared := range []string{workerconfig.TLS, workerconfig.SASL, workerconfig.Security} {
		for name, value := range v.Family(shared) {
			p[shared+name] = value
		}
	}
	maps.Copy(p, v.Family(family))
	maps.Copy(p, overrides)
	return p
}

// exist says whether there is a config topic, so that there may be connectors.
func (t *topics) exist(ctx context.Context) (bool, error) {
	bootstrap := t.w.config.Values.List("bootstrap.servers")
	exists, err := topiclog.Exists(ctx, t.configs.deps, bootstrap, t.configs.want.Name)
	for err != nil && ctx.Err() == nil {
		t.w.log.Warn("cannot tell whether there are connectors", zap.Error(err))
		pause(ctx, retryBackoff)
		exists, err = topiclog.Exists(ctx, t.configs.deps, bootstrap, t.configs.want.Name)
	}
	return exists, err
}

// ensure makes the topics that are not there.
func (t *topics) ensure(ctx context.Context) error {
	if t.w.config.Standalone {
		return nil
	}
	bootstrap := t.w.config.Values.List("bootstrap.servers")
	for _, one := range []topic{t.configs, t.status, t.offsets.topic} {
		if err := topiclog.Ensure(ctx, one.deps, bootstrap, one.want, retryBackoff); err != nil {
			return err
		}
	}
	return nil
}

func (t *topics) run(ctx context.Context) error {
	var group errgroup.Group
	for _, one := range []topic{t.configs, t.status, t.offsets.topic} {
		group.Go(func() error { return one.reader.Run(ctx) })
	}
	return group.Wait()
}

func (t *topics) readToEnd(ctx context.Context) error {
	for _, one := range []topic{t.configs, t.status, t.offsets.topic} {
		if err := one.reader.ReadToEnd(ctx); err != nil {
			return err
		}
	}
	t.mu.Lock()
	t.live = true
	t.mu.Unlock()
	return nil
}

func (t *topics) close() {
	for _, w := range []writer{t.configs.writer, t.status.writer, t.offsets.writer, t.plain} {
		w.Close()
	}
}

// progress is how far the config topic has been read, and what there is to run by that.
func (t *topics) progress() (int64, []work.Item) {
	s := t.w.herder.Configs()
	return s.Offset(), s.Work()
}

// catchUp reads the config topic at least up to an offset.
func (t *topics) catchUp(ctx context.Context, offset int64) error {
	if err := t.configs.reader.ReadToEnd(ctx); err != nil {
		return err
	}
	if at := t.w.herder.Configs().Offset(); at < offset {
		return fmt.Errorf("the topic's last record is before offset %d, at %d", offset, at-1)
	}
	return nil
}

func (t *topics) followConfig(r topiclog.Record) {
	t.mu.Lock()
	live := t.live
	t.mu.Unlock()
	change, err := t.w.crew.read(r, live)
	switch {
	case err != nil:
		t.w.log.Warn("reading the config topic", zap.Error(err))
	case change.Kind == configs.LevelSet && live:
		if _, err := t.w.levels.set(change.Logger, change.Level); err != nil {
			t.w.log.Warn("a level of a logger that was set for all workers is not set here", zap.String("logger", change.Logger), zap.Error(err))
		}
	}
}

func (t *topics) followStatus(r topiclog.Record) {
	if err := t.w.herder.FollowStatus(string(r.Key), r.Value); err != nil {
		t.w.log.Warn("reading the status topic", zap.Error(err))
	}
	if status.Forgets(string(r.Key), r.Value) {
		t.w.states.forgotten.Add(1)
	}
}

// writeConfigs appends to the config topic and returns once the records have been followed.
func (t *topics) writeConfigs(ctx context.Context, records []configs.Record) error {
	raw := make([]topicwriter.Record, len(records))
	privileged := false
	for i, r := range records {
		raw[i] = topicwriter.Record{Key: []byte(r.Key), Value: r.Value}
		privileged = privileged || !strings.HasPrefix(r.Key, "target-state-") && !strings.HasPrefix(r.Key, "logger-cluster-")
	}
	writer := t.plain
	if privileged {
		if err := t.claim(ctx); err != nil {
			return err
		}
		writer = t.configs.writer
	}
	if err := writer.Write(ctx, raw); err != nil {
		if privileged {
			t.mu.Lock()
			t.claimed = false
			t.mu.Unlock()
		}
		if errors.Is(err, topicwriter.ErrFenced) {
			// Whoever has claimed the topic leads by now, or thinks so. The next round tells; until then this worker does not claim it back.
			t.w.herder.SetPending()
			t.w.member.Rejoin()
		}
		return err
	}
	return t.configs.reader.ReadToEnd(ctx)
}

// claim makes this worker the config topic's one writer, once in the time that it leads.
func (t *topics) claim(ctx context.Context) error {
	t.mu.Lock()
	claimed := t.claimed
	t.mu.Unlock()
	if claimed {
		return nil
	}
	if err := t.configs.writer.Claim(ctx); err != nil {
		return err
	}
	t.mu.Lock()
	t.claimed = true
	t.mu.Unlock()
	return nil
}

// lead says whether the worker leads since the last rebalance.
func (t *topics) lead(leads bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.claimed = t.claimed && leads
}

func (t *topics) writeStatus(ctx context.Context, records []status.Record) error {
	raw := make([]topicwriter.Record, len(records))
	for i, r := range records {
		raw[i] = topicwriter.Record{Key: []byte(r.Key), Value: r.Value}
	}
	if err := t.status.writer.Write(ctx, raw); err != nil {
		return err
	}
	return t.status.reader.ReadToEnd(ctx)
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
