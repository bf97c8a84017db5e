// Package judgement judges how consumer groups come along, from what is seen of them again and again.
//
// A partition is judged over a window of looks, by Burrow's rules rather than by how large its lag is: it is well once it had no
// lag, or catches up; one whose committed offset moves while its lag grows falls behind; one whose committed offset stands still
// while records come is stalled. What else was seen names the cause where it can be told.
package judgement

import (
	"cmp"
	"slices"
	"time"
)

// Unknown is an offset that could not be found out.
const Unknown = -1

const (
	// window is how many looks a judgement rests on.
	window = 10
	// hotFactor is how many times what the others of its topic get on average makes a partition hot, if it is hotRecords in the window.
	hotFactor, hotRecords = 3, 10
	// growing is the score of a window, of 45 at most, that chance gives to lag without a trend about once in a hundred windows.
	growing = 25
	// markers bounds how many markers of ended transactions may lie between a committed offset, which clients take from the last
	// record, and the last stable offset that stops them.
	markers = 16
)

// Status is how a group or a partition of it comes along.
type Status int

// The statuses, the worst last: what comes later explains what comes earlier.
const (
	// OK catches up, or has nothing to consume.
	OK Status = iota
	// Warning falls behind, or has records that nobody consumes while no more come.
	Warning
	// HotPartition falls behind, as it gets several times as many records as the others of its topic.
	HotPartition
	// Stalled commits nothing while records come.
	Stalled
	// HungTxn cannot be read any further by consumers of committed records: a transaction holds the last stable offset.
	HungTxn
	// RebalanceLoop is a group of consumers that rebalances again and again and does not keep up. No partition has it.
	RebalanceLoop
)

func (s Status) String() string {
	return [...]string{"OK", "WARNING", "HOT_PARTITION", "STALLED", "HUNG_TXN", "REBALANCE_LOOP"}[s]
}

// Group is one look at a group.
type Group struct {
	ID      string
	Members int
	// Generation grows with each rebalance.
	Generation int32
	// NoConsumers is so where members share something else than partitions, as Connect's workers do: there is nothing to keep up with.
	NoConsumers bool
	// Positions are where it has committed offsets.
	Positions []Position
}

// Position is one look at a partition that a group has committed an offset of.
type Position struct {
	Topic     string
	Partition int32
	Committed int64
	// End is the high watermark, Stable the last stable offset; both may be Unknown.
	End, Stable int64
}

// Report is how a group comes along.
type Report struct {
	Group   string
	Members int
	// Status is the worst of the group and its partitions. It counts only where Judged says that enough was seen.
	Status     Status
	Judged     bool
	Partitions []Lag
}

// Lag is how a partition comes along.
type Lag struct {
	Topic     string
	Partition int32
	Committed int64
	// Records is Unknown where the end is; then the rest says nothing either.
	Records int64
	// Seconds is how long ago the first record that is not consumed yet was written. See trail.
	Seconds float64
	// Trend is by how many records a second the lag grows; negative where it shrinks.
	Trend  float64
	Status Status
	Judged bool
}

// Book has what was seen of groups. The zero value is ready for use.
type Book struct {
	groups map[string]*history
}

type history struct {
	rebalances rebalances
	partitions map[place]*track
}

type place struct {
	topic     string
	partition int32
}

// Judge takes down one look at all groups there are and judges them in that order. What was seen of others is forgotten.
func (b *Book) Judge(now time.Time, groups []Group) []Report {
	kept := make(map[string]*history, len(groups))
	reports := make([]Report, 0, len(groups))
	for i := range groups {
		g := &groups[i]
		h := b.groups[g.ID]
		if h == nil {
			h = &history{}
		}
		kept[g.ID] = h
		reports = append(reports, h.judge(now, g))
	}
	b.groups = kept
	return reports
}

func (h *history) judge(now time.Time, g *Group) Report {
	tracks := make(map[place]*track, len(g.Positions))
	for _, p := range g.Positions {
		at := place{p.Topic, p.Partition}
		t := h.partitions[at]
		if t == nil {
			t = &track{}
		}
		t.see(now, p)
		tracks[at] = t
	}
	h.partitions = tracks
	h.rebalances.see(now, g.Generation)

	inflow := inflows(g.Positions, tracks)
	r := Report{Group: g.ID, Members: g.Members, Judged: true}
	for _, p := range g.Positions {
		lag := tracks[place{p.Topic, p.Partition}].lag(now, p, inflow[p.Topic])
		r.Judged = r.Judged && lag.Judged
		r.Status = max(r.Status, lag.Status)
		r.Partitions = append(r.Partitions, lag)
	}
	if !g.NoConsumers && h.rebalances.loop(now) && !keepsUp(r.Partitions, tracks) {
		r.Status = RebalanceLoop
	}
	r.Judged = r.Judged || r.Status != OK
	return r
}

// keepsUp says whether what was committed catches up with the ends, all partitions together.
func keepsUp(lags []Lag, tracks map[place]*track) bool {
	var before, after int64
	for _, l := range lags {
		if t := tracks[place{l.Topic, l.Partition}]; len(t.looks) > 0 {
			before += t.looks[0].lag()
			after += t.looks[len(t.looks)-1].lag()
		}
	}
	return len(lags) > 0 && (after == 0 || after < before)
}

// flow is what the partitions of a topic got over their windows.
type flow struct {
	records    int64
	partitions int64
}

func inflows(positions []Position, tracks map[place]*track) map[string]flow {
	all := map[string]flow{}
	for _, p := range positions {
		f := all[p.Topic]
		f.records += tracks[place{p.Topic, p.Partition}].inflow()
		f.partitions++
		all[p.Topic] = f
	}
	return all
}

// look is what was seen of a partition once; its offsets are known.
type look struct {
	at                     time.Time
	committed, end, stable int64
}

func (l look) lag() int64 { return max(0, l.end-l.committed) }

// track is what was seen of a partition.
type track struct {
	looks []look // the last of them, window at most
	trail trail
}

// see takes down a look. Where the offset went back or the log is another one, what was seen before says nothing any more.
func (t *track) see(now time.Time, p Position) {
	if p.End == Unknown {
		return
	}
	l := look{now, p.Committed, p.End, p.Stable}
	if n := len(t.looks); n > 0 && (l.committed < t.looks[n-1].committed || l.end < t.looks[n-1].end) {
		t.looks = t.looks[:0]
		if l.end < t.trail.end() {
			t.trail = nil
		}
	}
	if len(t.looks) == window {
		t.looks = append(t.looks[:0], t.looks[1:]...)
	}
	t.looks = append(t.looks, l)
	t.trail = t.trail.with(now, p.End, p.Committed)
}

func (t *track) inflow() int64 {
	if len(t.looks) == 0 {
		return 0
	}
	return t.looks[len(t.looks)-1].end - t.looks[0].end
}

// lag judges the partition, given what its topic gets.
func (t *track) lag(now time.Time, p Position, topic flow) Lag {
	out := Lag{Topic: p.Topic, Partition: p.Partition, Committed: p.Committed, Records: Unknown}
	if p.End == Unknown {
		return out
	}
	first, last := t.looks[0], t.looks[len(t.looks)-1]
	out.Records = last.lag()
	out.Seconds = t.trail.age(now, p.Committed).Seconds()
	if span := last.at.Sub(first.at).Seconds(); span > 0 {
		out.Trend = float64(last.lag()-first.lag()) / span
	}
	out.Status = t.status(topic)
	out.Judged = len(t.looks) == window || out.Records == 0
	if !out.Judged {
		out.Status = OK
	}
	return out
}

func (t *track) status(topic flow) Status {
	first, last := t.looks[0], t.looks[len(t.looks)-1]
	if slices.ContainsFunc(t.looks, func(l look) bool { return l.lag() == 0 }) {
		return OK
	}
	switch {
	case last.committed == first.committed && t.held():
		return HungTxn
	case last.committed == first.committed && last.end > first.end:
		return Stalled
	case last.committed == first.committed:
		return Warning
	case t.current() || !t.grows():
		return OK
	case t.hot(topic):
		return HotPartition
	}
	return Warning
}

// grows says whether the lag has a trend upwards, by Mann and Kendall's test: of all pairs of looks, in how many more the later one has
// more lag than in how many it has less. What a group has not committed yet goes up and down with its commits; so there mostly is more
// lag in some later look than in an earlier one, and that says nothing.
func (t *track) grows() bool {
	score := 0
	for i, earlier := range t.looks {
		for _, later := range t.looks[i+1:] {
			score += cmp.Compare(later.lag(), earlier.lag())
		}
	}
	return score >= growing
}

// current says whether what was there at the look before is consumed: then the lag is what came since, and no more than a commit behind.
func (t *track) current() bool {
	n := len(t.looks)
	return n > 1 && t.looks[n-1].committed >= t.looks[n-2].end
}

// held says whether the last stable offset stood still for the whole window, with records behind it, where the committed offset is.
func (t *track) held() bool {
	last := t.looks[len(t.looks)-1]
	for _, l := range t.looks {
		if l.stable == Unknown || l.stable != last.stable || l.stable >= l.end {
			return false
		}
	}
	return last.committed <= last.stable && last.committed >= last.stable-markers
}

// hot says whether the partition gets several times as much as the others of its topic.
func (t *track) hot(topic flow) bool {
	own := t.inflow()
	others := topic.partitions - 1
	return others > 0 && own >= hotRecords && own*others >= hotFactor*(topic.records-own)
}
