package broker

import (
	"slices"
	"strconv"

	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/broker/internal/quota"
)

// throttles are the node's limits on replication (KIP-73) and on moves between log directories (KIP-113).
type throttles struct{ leader, follower, moves *quota.Quota }

func newThrottles(v configkeys.Values) throttles {
	replication := func() *quota.Quota {
		return quota.New(v.Int("replication.quota.window.num"), 1000*v.Long("replication.quota.window.size.seconds"))
	}
	return throttles{
		leader: replication(), follower: replication(),
		moves: quota.New(v.Int("alter.log.dirs.replication.quota.window.num"), 1000*v.Long("alter.log.dirs.replication.quota.window.size.seconds")),
	}
}

// followConfigs follows the node's limits and the number of its fetchers, if they have changed.
func (s *Service) followConfigs(im *metadata.Image, changed []metadata.Resource) {
	own := strconv.Itoa(int(s.cfg.NodeID))
	if !slices.ContainsFunc(changed, func(r metadata.Resource) bool {
		return r.Type == metadata.BrokerConfig && (r.Name == "" || r.Name == own)
	}) {
		return
	}
	layers := s.layers(im)
	for name, q := range map[string]*quota.Quota{
		"leader.replication.throttled.rate":              s.throttles.leader,
		"follower.replication.throttled.rate":            s.throttles.follower,
		"replica.alter.log.dirs.io.max.bytes.per.second": s.throttles.moves,
	} {
		text, _ := layers.Lookup(name)
		limit, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			limit = quota.Unlimited // the controller takes nothing else for a limit
		}
		q.SetLimit(limit)
	}
	s.copies.SetFetchers(layers.Values().Int("num.replica.fetchers"))
}
