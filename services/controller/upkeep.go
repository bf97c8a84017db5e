package controller

import (
	"fmt"
	"math"
	"time"

	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
	"github.com/cauce-stream/cauce/services/controller/internal/cluster"
)

// chore is what the active controller does of its own accord from time to time.
type chore struct {
	name    string
	everyMs int64
	dueMs   int64
	decide  func(*metadata.Image, cluster.Env) []*metadatapb.Record
}

const (
	// roundPauseMs is how soon a chore goes on that has more to do than one decision holds.
	roundPauseMs = 10
	// uncleanDelayMs is how soon partitions without leader are looked at after a config came to allow unclean elections;
	// configs often change several at once.
	uncleanDelayMs = 500
)

func (r *reign) newChores() []*chore {
	static, now := r.s.cfg.Static, r.s.nowMs()
	elect := &chore{name: "electing leaders uncleanly", everyMs: static.DurationMs("unclean.leader.election.interval.ms").Milliseconds(), decide: cluster.ElectUnclean}
	chores := []*chore{elect}
	if static.Bool("auto.leader.rebalance.enable") {
		everyMs := static.Duration("leader.imbalance.check.interval.seconds", time.Second).Milliseconds()
		chores = append(chores, &chore{name: "balancing leaders", everyMs: everyMs, decide: cluster.BalanceLeaders})
	}
	for _, c := range chores {
		c.dueMs = now + c.everyMs
	}
	r.electUnclean = elect
	return chores
}

// nextChoreMs is when the next chore is due.
func (r *reign) nextChoreMs() int64 {
	next := int64(math.MaxInt64)
	for _, c := range r.chores {
		next = min(next, c.dueMs)
	}
	return next
}

// keepUp does the chores that are due.
func (r *reign) keepUp() {
	for _, c := range r.chores {
		now := r.s.nowMs()
		if c.dueMs > now {
			continue
		}
		c.dueMs = now + c.everyMs
		r.guard(request{of: r, fail: func(error) {}, decide: func() {
			recs := c.decide(r.image, r.env())
			if len(recs) == 0 {
				return
			}
			r.s.log.Info(c.name, zap.Int("partitions", len(recs)))
			c.dueMs = now + roundPauseMs
			r.commit(recs, func(error) {})
		}})
	}
}

// changedConfigs has partitions without leader looked at soon if one of the changed configs may allow them one.
func (r *reign) changedConfigs(im *metadata.Image, changed []metadata.Resource) {
	for _, resource := range changed {
		if im.Config(resource)["unclean.leader.election.enable"] == "true" {
			r.electUnclean.dueMs = min(r.electUnclean.dueMs, r.s.nowMs()+uncleanDelayMs)
			return
		}
	}
}

// maxNamedPartitions bounds one log line.
const maxNamedPartitions = 100

// tellUnclean makes it known that acknowledged records may be lost.
func (s *Service) tellUnclean(elections []cluster.UncleanElection) {
	if len(elections) == 0 {
		return
	}
	s.metrics.unclean.Add(float64(len(elections)))
	named := make([]string, min(len(elections), maxNamedPartitions))
	for i := range named {
		e := elections[i]
		named[i] = fmt.Sprintf("%s-%d to node %d", e.Topic, e.Partition, e.Leader)
	}
	s.log.Warn("unclean election: the new leaders may lack acknowledged records", zap.Int("partitions", len(elections)), zap.Strings("leaders", named))
}
