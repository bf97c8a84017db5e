package diagnosis

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/group/snapshot"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/txn/ledger"
)

// markers bounds how many markers of ended transactions may lie between a committed offset, which clients take from the last record
// that they saw, and the last stable offset that stops them.
const markers = 16

// Holder is a transaction that a partition has open.
type Holder struct {
	ledger.Open
	// State, Age and Timeout are what the coordinator knows. State is empty if it does not know the producer; then Age is that of the
	// last write.
	State        string
	Age, Timeout time.Duration
}

// Held are the partitions of which a group has come up to the last stable offset, and which stood still between two samples.
func Held(before, after Sample) kadm.TopicsSet {
	earlier := index(before.Offsets)
	set := kadm.TopicsSet{}
	for _, o := range after.Offsets {
		if b, ok := earlier[partition{o.Topic, o.Partition}]; ok && o.Subscribed && held(b, o) {
			set.Add(o.Topic, o.Partition)
		}
	}
	return set
}

func index(offsets []snapshot.Offset) map[partition]snapshot.Offset {
	all := make(map[partition]snapshot.Offset, len(offsets))
	for _, o := range offsets {
		all[partition{o.Topic, o.Partition}] = o
	}
	return all
}

// held says whether a last stable offset that stands still is where the committed offset is, with records behind it.
func held(before, after snapshot.Offset) bool {
	return after.Committed >= 0 && after.Committed == before.Committed && after.Stable >= 0 && after.Stable == before.Stable &&
		before.Stable < before.End && after.Stable < after.End &&
		after.Committed <= after.Stable && after.Committed >= after.Stable-markers
}

// heldBy says which transaction holds a partition, since when, and what to do about it.
func (j *judge) heldBy(o snapshot.Offset) {
	where := fmt.Sprintf("consumers of committed records wait at the last stable offset %d, before %d more", o.Stable, o.End-o.Stable)
	i := slices.IndexFunc(j.after.Holding, func(h Holder) bool { return h.Topic == o.Topic && h.Partition == o.Partition && h.Start <= o.Stable })
	if i < 0 {
		j.find(HungTxn, name(o), "%s: a transaction is open there; see: cauce txn find-hanging --topic %s --older-than 0s", where, o.Topic)
		return
	}
	j.find(HungTxn, name(o), "%s: %s", where, j.after.Holding[i].words())
}

func (h *Holder) words() string {
	who := fmt.Sprintf("producer %d, epoch %d", h.ProducerID, h.Epoch)
	if h.ID != "" {
		who = fmt.Sprintf("transactional id %q (%s)", h.ID, who)
	}
	switch {
	case h.Reason != "" && h.State == "":
		return fmt.Sprintf("%s has a transaction open there and wrote last %s ago, and no coordinator will end it: %s; try: %s", who, h.Age, h.Reason, h.abort())
	case h.Reason != "":
		return fmt.Sprintf("%s has a transaction open there, and no coordinator will end it: %s; try: %s", who, h.Reason, h.abort())
	case strings.HasPrefix(h.State, "Prepare"):
		return fmt.Sprintf("the transaction of %s is decided since %s (%s), and its marker is not written yet; see: cauce txn describe %s", who, h.Age, h.State, h.ID)
	}
	return fmt.Sprintf("%s has a transaction open since %s, which its coordinator aborts after %s; try: cauce txn abort %s", who, h.Age, h.Timeout, h.ID)
}

func (h *Holder) abort() string {
	return fmt.Sprintf("cauce txn abort --topic %s --partition %d --start-offset %d", h.Topic, h.Partition, h.Start)
}

// Holders says of open transactions what their coordinators know.
func Holders(open []ledger.Open, known map[int64]ledger.Transaction, now time.Time) []Holder {
	stuck := ledger.Hanging(open, known)
	all := make([]Holder, 0, len(open))
	for _, o := range open {
		h := Holder{Open: o, Age: age(now, o.LastMs)}
		if t, ok := known[o.ProducerID]; ok {
			h.ID, h.State, h.Age, h.Timeout = t.ID, t.State, age(now, t.StartMs), time.Duration(t.TimeoutMs)*time.Millisecond
		}
		if i := slices.IndexFunc(stuck, func(s ledger.Open) bool {
			return s.Topic == o.Topic && s.Partition == o.Partition && s.ProducerID == o.ProducerID && s.Start == o.Start
		}); i >= 0 {
			h.Reason = stuck[i].Reason
		}
		all = append(all, h)
	}
	return all
}

func age(now time.Time, ms int64) time.Duration {
	return max(0, now.Sub(time.UnixMilli(ms))).Round(time.Second)
}
