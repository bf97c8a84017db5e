package lag

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/assignment"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/judgement"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/shard"
)

// WatchConfig says how closely groups are watched.
type WatchConfig struct {
	// Every is the time between two looks; 0 for never. A look may take as long.
	Every time.Duration
	// Most is how many groups and offsets of groups are watched, and so bounds the series of the metrics.
	Most int
}

// WatchDeps are where a watch looks.
type WatchDeps struct {
	Meter *Meter
	Image func() *metadata.Image
	// Survey lists the node's groups, as far as there is room, and how many entries there was none for.
	Survey func(room int) (groups []shard.Standing, left int)
	Log    *zap.Logger
}

// Watch looks at all groups of a node again and again and judges how they come along. It is a collector of metrics.
type Watch struct {
	cfg  WatchConfig
	deps WatchDeps

	latest  atomic.Pointer[overview]
	stop    context.CancelFunc
	running sync.WaitGroup
}

// overview is what the last look saw.
type overview struct {
	reports []judgement.Report
	left    int
}

// NewWatch makes a watch that sees nothing before Start.
func NewWatch(cfg WatchConfig, deps WatchDeps) *Watch {
	w := &Watch{cfg: cfg, deps: deps, stop: func() {}}
	w.latest.Store(&overview{})
	return w
}

// Start begins to look. It is called once at most.
func (w *Watch) Start() {
	if w.cfg.Every <= 0 {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.stop = cancel
	w.running.Go(func() { w.run(ctx) })
}

// Close ends the looking and waits until nothing of it runs.
func (w *Watch) Close() {
	w.stop()
	w.running.Wait()
}

func (w *Watch) run(ctx context.Context) {
	ticker := time.NewTicker(w.cfg.Every)
	defer ticker.Stop()
	var book judgement.Book
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := w.look(ctx, &book)
		before := w.latest.Swap(now)
		if now.left > 0 && before.left == 0 {
			w.deps.Log.Warn("some groups have no lag metrics: there are more groups and offsets than group.lag.max.partitions",
				zap.Int("watched", w.cfg.Most), zap.Int("left", now.left))
		}
	}
}

// look is one look at all groups.
func (w *Watch) look(ctx context.Context, book *judgement.Book) *overview {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.Every)
	defer cancel()
	standings, left := w.deps.Survey(w.cfg.Most)
	topics, wanted := watched(w.deps.Image(), standings)
	ends, stables := w.deps.Meter.Bounds(ctx, topics, func(i, n int) bool { return wanted[i][n] })
	groups := make([]judgement.Group, 0, len(standings))
	for i := range standings {
		s := &standings[i]
		g := judgement.Group{ID: s.Group, Members: s.Members, Generation: s.Generation, NoConsumers: s.NoConsumers,
			Positions: make([]judgement.Position, 0, len(s.Committed))}
		for _, c := range s.Committed {
			p := judgement.Position{Topic: c.Topic, Partition: c.Partition, Committed: c.Offset, End: judgement.Unknown, Stable: judgement.Unknown}
			if i, ok := find(topics, c.Topic); ok && c.Partition < topics[i].Count {
				p.End, p.Stable = ends[i][c.Partition], stables[i][c.Partition]
			}
			g.Positions = append(g.Positions, p)
		}
		groups = append(groups, g)
	}
	return &overview{book.Judge(time.Now(), groups), left}
}

func find(topics []assignment.Topic, name string) (int, bool) {
	return slices.BinarySearchFunc(topics, name, func(t assignment.Topic, name string) int { return cmp.Compare(t.Name, name) })
}

// watched are the topics that groups have offsets of, in order, and which of their partitions.
func watched(im *metadata.Image, standings []shard.Standing) (topics []assignment.Topic, wanted [][]bool) {
	seen := map[string][]bool{}
	for i := range standings {
		for _, c := range standings[i].Committed {
			t, ok := im.Topic(c.Topic)
			if !ok || int(c.Partition) >= len(t.Partitions) {
				continue
			}
			if seen[c.Topic] == nil {
				seen[c.Topic] = make([]bool, len(t.Partitions))
				topics = append(topics, assignment.Topic{ID: t.ID, Name: t.Name, Count: int32(len(t.Partitions))})
			}
			seen[c.Topic][c.Partition] = true
		}
	}
	slices.SortFunc(topics, func(a, b assignment.Topic) int { return cmp.Compare(a.Name, b.Name) })
	for _, t := range topics {
		wanted = append(wanted, seen[t.Name])
	}
	return topics, wanted
}
