package diagnosis

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/group/snapshot"
	"github.com/cauce-stream/cauce/libs/kafka/groupapi"
)

const (
	// leftPeriod is how long those who left count.
	leftPeriod = 5 * time.Minute
	// often is how many times in that period a client may leave for reasons of its own, as it does when it is deployed.
	often = 3
	// pollTimeout is part of the reason that Java's clients give when a batch took too long.
	pollTimeout = "poll timeout has expired"
)

// exit is that members of one client left, again and again for the same reason.
type exit struct {
	client, host, reason string
	removed              bool
	times                int
	first, last          time.Duration // ago
}

// exits puts together who left in the period, the oldest first.
func exits(left []groupapi.Departure) []exit {
	var all []exit
	for _, d := range left {
		if d.Ago > leftPeriod {
			continue
		}
		i := slices.IndexFunc(all, func(e exit) bool {
			return e.client == d.Client && e.host == d.Host && e.reason == d.Reason && e.removed == d.Removed
		})
		if i < 0 {
			all = append(all, exit{client: d.Client, host: d.Host, reason: d.Reason, removed: d.Removed, first: d.Ago})
			i = len(all) - 1
		}
		all[i].times++
		all[i].last = d.Ago
	}
	return all
}

// involuntary says whether the client had no choice.
func (e exit) involuntary() bool { return e.removed || strings.Contains(e.reason, pollTimeout) }

func (e exit) String() string {
	verb, reason := "left", fmt.Sprintf("%q", e.reason)
	switch {
	case e.removed:
		verb, reason = "was taken out", e.reason
	case e.reason == "":
		reason = "it gives no reason"
	}
	s := fmt.Sprintf("%s %v ago: %s", verb, e.last.Round(time.Second), reason)
	if e.times > 1 {
		s = fmt.Sprintf("%s %d times in %v, and %v ago for the last time: %s",
			verb, e.times, (e.first - e.last).Round(time.Second), e.last.Round(time.Second), reason)
	}
	if strings.Contains(e.reason, pollTimeout) {
		s += "; a batch takes it longer than max.poll.interval.ms: fewer records a poll (max.poll.records), or a longer interval"
	}
	return s
}

// left finds clients that were thrown out, or that leave again and again. If nothing is committed meanwhile, what they did is done
// anew each time.
func (j *judge) left() {
	if len(j.after.Left) == 0 {
		j.replaced()
		return
	}
	for _, e := range exits(j.after.Left) {
		judgement := Warning
		switch {
		case e.involuntary() && e.times > 1 && !j.moved():
			judgement = Stalled
		case !e.involuntary() && e.times < often:
			continue
		}
		j.find(judgement, fmt.Sprintf("client %s at %s", e.client, e.host), "%s", e)
	}
}

// replaced finds members that are gone while others of the same client have come, where the cluster does not tell who left.
func (j *judge) replaced() {
	has := func(g snapshot.Group, id string) bool {
		return slices.ContainsFunc(g.Members, func(m snapshot.Member) bool { return m.ID == id })
	}
	for _, gone := range j.before.Group.Members {
		if has(j.after.Group, gone.ID) {
			continue
		}
		for _, m := range j.after.Group.Members {
			if m.ClientID == gone.ClientID && m.Host == gone.Host && !has(j.before.Group, m.ID) {
				j.find(Warning, fmt.Sprintf("client %s at %s", m.ClientID, m.Host),
					"left and came back as another member in %s; its log has the reason: max.poll.interval.ms is over, its session, a restart", j.apart)
				break
			}
		}
	}
}

// moved says whether the group committed something between the looks.
func (j *judge) moved() bool {
	return slices.ContainsFunc(j.after.Offsets, func(o snapshot.Offset) bool {
		before, ok := j.earlier[partition{o.Topic, o.Partition}]
		return !ok || before.Committed != o.Committed
	})
}
