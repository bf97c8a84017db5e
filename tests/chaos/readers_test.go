//go:build chaos

package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/tests/chaos/internal/isolation"
)

func (p *pipeline) newViews(reader string) map[isolation.List]*isolation.View {
	views := map[isolation.List]*isolation.View{}
	for _, list := range pipeLists() {
		views[list] = p.view(reader, list)
	}
	return views
}

// somewhere is an offset of each list that was read before.
func (p *pipeline) somewhere(random *rand.Rand) map[isolation.List]int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	from := map[isolation.List]int64{}
	for _, list := range pipeLists() {
		from[list] = random.Int64N(p.seen[list] + 1)
	}
	return from
}

// follow reads all lists from somewhere on until ctx ends, at replicas in a rack where there are such. What is said of offsets out of range is in load.consume.
func (p *pipeline) follow(ctx context.Context, name, rack string, views map[isolation.List]*isolation.View, next map[isolation.List]int64) {
	for ctx.Err() == nil {
		if refused := p.readOn(ctx, name, rack, views, next); refused != nil {
			p.remark("%s: %v", name, refused)
			pause(refusalPause)
		}
	}
}

// readOn reads from the offsets next on, and moves them, until ctx ends or one of them is out of range, which it returns.
func (p *pipeline) readOn(ctx context.Context, name, rack string, views map[isolation.List]*isolation.View, next map[isolation.List]int64) (refused error) {
	offsets := map[string]map[int32]kgo.Offset{}
	for list := range views {
		if offsets[list.Topic] == nil {
			offsets[list.Topic] = map[int32]kgo.Offset{}
		}
		offsets[list.Topic][list.Partition] = kgo.NewOffset().At(next[list])
	}
	cl, err := kgo.NewClient(impatient(p.bootstrap, kgo.ConsumePartitions(offsets), kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.FetchMaxWait(300*time.Millisecond), kgo.ClientID(name), kgo.Rack(rack))...)
	if err != nil {
		p.fail("%s: %v", name, err)
		return nil
	}
	defer cl.Close()
	for {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		fetches.EachPartition(func(f kgo.FetchTopicPartition) {
			list := isolation.List{Topic: f.Topic, Partition: f.Partition}
			p.given(views[list], f.Records)
			if n := len(f.Records); n > 0 {
				p.mu.Lock()
				next[list] = f.Records[n-1].Offset + 1
				p.mu.Unlock()
			}
		})
		for _, e := range fetches.Errors() {
			if !errors.Is(e.Err, kerr.OffsetOutOfRange) {
				p.fail("%s: %s-%d: %v", name, e.Topic, e.Partition, e.Err)
			}
			return fmt.Errorf("%s-%d: %w", e.Topic, e.Partition, e.Err)
		}
	}
}
