package cluster

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
)

// Kinds of elections that clients ask for (KIP-460).
const (
	electPreferred = 0
	electUnclean   = 1
)

// electLeaders decides ElectLeaders, key 43, versions 0 to 2 (KIP-183, KIP-460).
// Each partition succeeds or fails by itself. Asked for all partitions it leaves
// those out that need no election.
func electLeaders(im *metadata.Image, env Env, req *kmsg.ElectLeadersRequest) Outcome {
	resp := req.ResponseKind().(*kmsg.ElectLeadersResponse)
	if req.ElectionType != electPreferred && req.ElectionType != electUnclean {
		resp.ErrorCode = kerr.InvalidRequest.Code
		return Outcome{Response: resp}
	}
	e := elector{rules: rulesOf(im, env), unclean: req.ElectionType == electUnclean, elected: map[*metadata.Partition]bool{}}
	if req.Topics == nil {
		for t := range im.Topics() {
			e.electAll(resp, t)
		}
		return Outcome{Response: resp, Records: e.records}
	}
	for _, wanted := range req.Topics {
		res := kmsg.NewElectLeadersResponseTopic()
		res.Topic = wanted.Topic
		t, ok := im.Topic(wanted.Topic)
		for _, id := range wanted.Partitions {
			var err error
			switch {
			case !ok:
				err = refuse(kerr.UnknownTopicOrPartition, "No such topic as %s", wanted.Topic)
			case id < 0 || int(id) >= len(t.Partitions):
				err = refuse(kerr.UnknownTopicOrPartition, "No such partition as %s-%d", wanted.Topic, id)
			default:
				err = e.elect(t, t.Partitions[id])
			}
			res.Partitions = append(res.Partitions, electResult(id, err))
		}
		resp.Topics = append(resp.Topics, res)
	}
	return Outcome{Response: resp, Records: e.records}
}

// elector elects leaders in place of those that partitions have.
type elector struct {
	rules   rules
	unclean bool
	// elected are the partitions that have a new leader by this request.
	elected map[*metadata.Partition]bool
	records []*metadatapb.Record
}

func (e *elector) electAll(resp *kmsg.ElectLeadersResponse, t *metadata.Topic) {
	res := kmsg.NewElectLeadersResponseTopic()
	res.Topic = t.Name
	for _, p := range t.Partitions {
		if err := e.elect(t, p); err != kerr.ElectionNotNeeded {
			res.Partitions = append(res.Partitions, electResult(p.ID, err))
		}
	}
	resp.Topics = append(resp.Topics, res)
}

func (e *elector) elect(t *metadata.Topic, p *metadata.Partition) error {
	if e.elected[p] || e.unclean && p.HasLeader() || !e.unclean && p.Leader == p.Replicas[0] {
		return kerr.ElectionNotNeeded
	}
	if err := checkRecordLimit(len(e.records) + 1); err != nil {
		return err
	}
	c := e.rules.change(t, p)
	c.preferred, c.unclean = !e.unclean, e.unclean
	rec := c.record(t.ID)
	switch {
	case rec != nil:
		e.elected[p] = true
		e.records = append(e.records, partitionChangeRecord(rec))
		return nil
	case e.unclean:
		return kerr.EligibleLeadersNotAvailable
	}
	return kerr.PreferredLeaderNotAvailable
}

func electResult(partition int32, err error) kmsg.ElectLeadersResponseTopicPartition {
	res := kmsg.NewElectLeadersResponseTopicPartition()
	res.Partition = partition
	res.ErrorCode, res.ErrorMessage = answer(err)
	return res
}

// maxUpkeepRecords bounds what one round of BalanceLeaders or ElectUnclean
// changes, so that requests get their turn in between. It is Kafka's.
const maxUpkeepRecords = 1000

// BalanceLeaders gives partitions to their preferred replicas, the first ones,
// where these are in sync and others lead (auto.leader.rebalance.enable). It is
// to be called, on the image with the records of the call before, until there are
// none. It looks at every partition of the image.
func BalanceLeaders(im *metadata.Image, env Env) []*metadatapb.Record {
	rules := rulesOf(im, env)
	return rules.upkeep(func(_ *metadata.Topic, p *metadata.Partition) bool {
		first := p.Replicas[0]
		return p.Leader != first && p.InSync(first) && rules.canLead(first)
	}, func(c *change) { c.preferred, c.unclean = true, false })
}

// ElectUnclean gives partitions that have no leader one that may lack records,
// where unclean.leader.election.enable has come to allow it since they lost
// theirs. It is called as BalanceLeaders is.
func ElectUnclean(im *metadata.Image, env Env) []*metadatapb.Record {
	rules := rulesOf(im, env)
	return rules.upkeep(func(t *metadata.Topic, p *metadata.Partition) bool {
		return !p.HasLeader() && rules.topicConfig(t, "unclean.leader.election.enable") == "true"
	}, func(*change) {})
}

func (r rules) upkeep(needed func(*metadata.Topic, *metadata.Partition) bool, how func(*change)) []*metadatapb.Record {
	var recs []*metadatapb.Record
	for t := range r.im.Topics() {
		for _, p := range t.Partitions {
			if !needed(t, p) {
				continue
			}
			c := r.change(t, p)
			how(&c)
			rec := c.record(t.ID)
			if rec == nil {
				continue
			}
			recs = append(recs, partitionChangeRecord(rec))
			if len(recs) == maxUpkeepRecords {
				return recs
			}
		}
	}
	return recs
}

// UncleanElection is a partition whose new leader may lack acknowledged records.
type UncleanElection struct {
	Topic     string
	Partition int32
	Leader    int32
}

// UncleanElections are those that recs bring about. im is the image before them.
func UncleanElections(im *metadata.Image, recs []*metadatapb.Record) []UncleanElection {
	var found []UncleanElection
	for _, rec := range recs {
		c := rec.GetPartitionChange()
		if c == nil || c.Leader == nil || c.GetLeader() == nobody {
			continue
		}
		t, ok := im.TopicByID(metadata.TopicID(c.GetTopicId()))
		if !ok || int(c.GetPartitionId()) >= len(t.Partitions) {
			continue
		}
		// Whoever is elected in good order was in sync, or has joined with this
		// record, which a partition that recovers does not allow.
		p := t.Partitions[c.GetPartitionId()]
		if next := p.Changed(c); next.LeaderRecoveryState == metadata.LeaderRecovering && next.Leader != p.Leader &&
			!p.InSync(next.Leader) && !slices.Contains(p.ELR, next.Leader) {
			found = append(found, UncleanElection{t.Name, p.ID, next.Leader})
		}
	}
	return found
}
