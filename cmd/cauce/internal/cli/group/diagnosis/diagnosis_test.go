package diagnosis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/group/snapshot"
	"github.com/cauce-stream/cauce/libs/kafka/groupapi"
)

// group is a stable classic group whose member m1 owns t:0 and t:1, unless changed.
func group(change ...func(*snapshot.Group)) snapshot.Group {
	owned := snapshot.Partitions{{Topic: "t", Partitions: []int32{0, 1}}}
	g := snapshot.Group{
		ID: "g", Type: snapshot.Classic, State: "Stable", ProtocolType: "consumer", Epoch: -1, AssignmentEpoch: -1,
		Members: []snapshot.Member{{ID: "m1", ClientID: "app", Host: "/h", Epoch: -1, Topics: []string{"t"}, Assigned: owned, Target: owned}},
	}
	for _, c := range change {
		c(&g)
	}
	return g
}

// reconciling makes a group of the consumer protocol in which m1 is to give t:1 to m2.
func reconciling(g *snapshot.Group) {
	g.Type, g.State, g.Epoch, g.AssignmentEpoch = snapshot.Consumer, "Reconciling", 4, 4
	g.Members[0].Epoch = 3
	g.Members[0].Target = snapshot.Partitions{{Topic: "t", Partitions: []int32{0}}}
	g.Members = append(g.Members, snapshot.Member{ID: "m2", InstanceID: "static", ClientID: "app", Epoch: 4, Target: snapshot.Partitions{{Topic: "t", Partitions: []int32{1}}}})
}

func state(name string) func(*snapshot.Group) { return func(g *snapshot.Group) { g.State = name } }

func empty(g *snapshot.Group) { g.State, g.Members = "Empty", nil }

// at is a partition of t that m1 owns.
func at(id int32, committed, start, end int64) snapshot.Offset {
	lag := int64(-1)
	if committed >= 0 && end >= 0 {
		lag = max(0, end-committed)
	}
	return snapshot.Offset{Topic: "t", Partition: id, Committed: committed, Start: start, End: end, Stable: end, Lag: lag, Subscribed: true, Member: "m1", ClientID: "app", Host: "/h"}
}

func free(o snapshot.Offset) snapshot.Offset {
	o.Member, o.ClientID, o.Host = "", "", ""
	return o
}

func unsubscribed(o snapshot.Offset) snapshot.Offset {
	o.Subscribed = false
	return free(o)
}

func sample(g snapshot.Group, offsets ...snapshot.Offset) Sample {
	return Sample{Group: g, Offsets: offsets}
}

var (
	pollExceeded = groupapi.Departure{Client: "app", Host: "/h", Reason: "consumer poll timeout has expired."}
	dead         = groupapi.Departure{Client: "app", Host: "/h", Reason: "nothing was heard of it for 45s", Removed: true}
	closed       = groupapi.Departure{Client: "app", Host: "/h", Reason: "the consumer is being closed"}
)

// without is a sample of a group that a client has left some times, every 15 s and 15 s ago for the last time; or earlier than by how.
func without(g snapshot.Group, times int, how groupapi.Departure, offsets ...snapshot.Offset) Sample {
	s := sample(g, offsets...)
	for n := range times {
		d := how
		d.Ago += time.Duration(times-n) * 15 * time.Second
		s.Left = append(s.Left, d)
	}
	return s
}

func TestOf(t *testing.T) {
	well := at(1, 10, 0, 10)
	tests := []struct {
		name          string
		before, after Sample
		want          Judgement
		about, what   string
	}{
		{"consumes", sample(group(), at(0, 5, 0, 9), well), sample(group(), at(0, 20, 0, 21), well), OK, "group", "Stable; members: 1, partitions owned: 2, lag: 1"},
		{"idle", sample(group(), well), sample(group(), well), OK, "group", "lag: 0"},
		{"nothing to consume", sample(group(), at(0, -1, 0, 0)), sample(group(), at(0, -1, 0, 0)), OK, "group", "Stable"},
		{"stalled", sample(group(), at(0, 5, 0, 9)), sample(group(), at(0, 5, 0, 12)), Stalled, "t:0", "nothing was committed for 10s, and the lag grew from 4 to 7 (member app at /h)"},
		{"waiting", sample(group(), at(0, 5, 0, 9)), sample(group(), at(0, 5, 0, 9)), Warning, "t:0", "nothing was committed for 10s, and 4 records wait"},
		{"caught up without the end moving", sample(group(), at(0, 5, 0, 9)), sample(group(), at(0, 9, 0, 9)), OK, "group", "lag: 0"},
		{"slow", sample(group(), at(0, 5, 0, 9)), sample(group(), at(0, 7, 0, 20)), Warning, "t:0", "falls behind: 2 records were committed and 11 written in 10s, so the lag grew from 4 to 13"},
		{"keeps up, and is about to commit", sample(group(), at(0, 6, 0, 9)), sample(group(), at(0, 70, 0, 80)), OK, "group", "lag: 10"},
		{"slow, but gaining", sample(group(), at(0, 5, 0, 100)), sample(group(), at(0, 50, 0, 120)), OK, "group", "lag: 70"},
		{"rewound", sample(group(), at(0, 9, 0, 9)), sample(group(), at(0, 3, 0, 9)), Warning, "t:0", "went back from 9 to 3"},
		{"never committed", sample(group(), at(0, -1, 2, 9)), sample(group(), at(0, -1, 2, 12)), Warning, "t:0", "nothing was committed yet, and 10 records are there"},
		{"records deleted unread", sample(group(), at(0, 5, 7, 9)), sample(group(), at(0, 5, 7, 9)), Stalled, "t:0", "5 is before the start 7: 2 records were deleted"},
		{"records deleted unread, but on its way", sample(group(), at(0, 4, 7, 9)), sample(group(), at(0, 5, 7, 9)), Warning, "t:0", "5 is before the start 7"},
		{"topic made anew", sample(group(), at(0, 50, 0, 9)), sample(group(), at(0, 50, 0, 9)), Stalled, "t:0", "50 is after the end 9"},
		{"no leader", sample(group(), at(0, 5, -1, -1)), sample(group(), at(0, 5, -1, -1)), Stalled, "t:0", "has no leader"},
		{"nobody owns, records wait", sample(group(), free(at(0, 5, 0, 9)), free(at(2, -1, 0, 3))), sample(group(), free(at(0, 5, 0, 9)), well, free(at(2, -1, 0, 3))), Stalled, "t:0,2", "no member owns them, and 7 records wait"},
		{"nobody owns, nothing waits", sample(group(), free(at(0, 9, 0, 9))), sample(group(), free(at(0, 9, 0, 9))), Warning, "t:0", "no member owns them"},
		{"nobody owned at first", sample(group(), free(at(0, 9, 0, 9))), sample(group(), at(0, 9, 0, 9)), OK, "group", ""},
		{"not subscribed to any more", sample(group(), unsubscribed(at(0, 5, 0, 9))), sample(group(), unsubscribed(at(0, 5, 0, 99))), OK, "group", ""},
		{"no members, records wait", sample(group(empty), unsubscribed(at(0, 5, 0, 9))), sample(group(empty), unsubscribed(at(0, 5, 0, 9))), Stalled, "group", "no members: nobody consumes, and 4 records wait"},
		{"no members, nothing waits", sample(group(empty), unsubscribed(at(0, 9, 0, 9))), sample(group(empty), unsubscribed(at(0, 9, 0, 9))), Warning, "group", "no members; no records wait"},
		{"simple consumer", sample(group(empty), unsubscribed(at(0, 5, 0, 9))), sample(group(empty), unsubscribed(at(0, 7, 0, 9))), OK, "group", "assigns itself partitions"},
		{"rebalance begun", sample(group(), well), sample(group(state("PreparingRebalance")), well), Warning, "group", "join anew (PreparingRebalance):"},
		{"rebalance goes on", sample(group(state("PreparingRebalance"))), sample(group(state("PreparingRebalance"))), Stalled, "group", "join anew (PreparingRebalance), for 10s at least"},
		{"leader late", sample(group(state("CompletingRebalance"))), sample(group(state("CompletingRebalance"))), Stalled, "group", "the member that leads it"},
		{"assignor late", sample(group(reconciling, state("Assigning"))), sample(group(reconciling, state("Assigning"))), Stalled, "group", `waits for the assignor ""`},
		{"reconciling begun", sample(group()), sample(group(reconciling)), Warning, "member m1", "has not given up t:1 yet"},
		{"reconciling goes on", sample(group(reconciling)), sample(group(reconciling)), Stalled, "member m1", "has not given up t:1 yet, for 10s at least"},
		{"who waits", sample(group(reconciling)), sample(group(reconciling)), Stalled, "member static", "waits for t:1, which member m1 still owns"},
		{"behind", sample(group(reconciling, behind)), sample(group(reconciling, behind)), Stalled, "member m1", "is at epoch 3 of 4 and has not heard"},
		{"left", sample(group(), at(0, 5, 0, 9)), without(group(), 1, pollExceeded, at(0, 5, 0, 9)), Warning, "client app at /h", "left 15s ago: \"consumer poll timeout has expired.\"; a batch takes it longer than max.poll.interval.ms"},
		{"left again and again", sample(group(), at(0, 5, 0, 9)), without(group(), 4, pollExceeded, at(0, 5, 0, 9)), Stalled, "client app at /h", "left 4 times in 45s, and 15s ago for the last time: \"consumer poll timeout"},
		{"left again and again, but commits", sample(group(), at(0, 5, 0, 99)), without(group(), 4, pollExceeded, at(0, 7, 0, 99)), Warning, "client app at /h", "left 4 times"},
		{"taken out, nobody left", sample(group(empty), unsubscribed(at(0, 5, 0, 9))), without(group(empty), 2, dead, unsubscribed(at(0, 5, 0, 9))), Stalled, "client app at /h", "was taken out 2 times in 15s, and 15s ago for the last time: nothing was heard of it for 45s"},
		{"nobody left of those there", sample(group(), at(0, 5, 0, 9)), sample(group(empty), unsubscribed(at(0, 7, 0, 9))), Warning, "group", "has no members at the moment, and 2 records wait"},
		{"deployed", sample(group(), well), without(group(), 2, closed, well), OK, "group", "Stable"},
		{"restarts all the time", sample(group(), well), without(group(), 3, closed, well), Warning, "client app at /h", "left 3 times in 30s, and 15s ago for the last time: \"the consumer is being closed\""},
		{"left long ago", sample(group(), well), without(group(), 1, groupapi.Departure{Client: "app", Host: "/h", Reason: "consumer poll timeout has expired.", Ago: time.Hour}, well), OK, "group", "Stable"},
		{"replaced, on a cluster that does not tell why", sample(group(), well), sample(group(func(g *snapshot.Group) { g.Members[0].ID = "m2" }), well), Warning, "client app at /h", "came back as another member in 10s"},
		{"unknown state", sample(group(state("Odd"))), sample(group(state("Odd"))), Stalled, "group", "is Odd"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := Of(test.before, test.after, 10*time.Second)
			if got.Judgement != test.want || got.Findings[0].Judgement != test.want || got.Group != "g" {
				t.Errorf("%s, want %s: %+v", got.Judgement, test.want, got)
			}
			for _, f := range got.Findings {
				if f.About == test.about && strings.Contains(f.What, test.what) {
					return
				}
			}
			t.Errorf("nothing says of %s that it %q: %+v", test.about, test.what, got.Findings)
		})
	}
}

// behind leaves m1 with what it is to own, at an older epoch.
func behind(g *snapshot.Group) {
	g.Members[0].Assigned = g.Members[0].Target
	g.Members[1].Assigned = g.Members[1].Target
}

func TestOfFault(t *testing.T) {
	for _, err := range []error{kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable, kerr.NotCoordinator, context.DeadlineExceeded} {
		report, ok := OfFault("g", fmt.Errorf("group: %w", err))
		if !ok || report.Judgement != Stalled || report.Findings[0].About != "coordinator" {
			t.Errorf("%v: %+v, %v", err, report, ok)
		}
	}
	for _, err := range []error{nil, kerr.GroupIDNotFound, kerr.GroupAuthorizationFailed, errors.New("boom")} {
		if report, ok := OfFault("g", err); ok {
			t.Errorf("%v says of the group %+v", err, report)
		}
	}
}
