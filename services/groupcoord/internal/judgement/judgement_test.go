package judgement

import (
	"math"
	"testing"
	"time"
)

const every = 10 * time.Second

// at is the time of a look.
func at(n int) time.Time { return time.UnixMilli(1_700_000_000_000).Add(time.Duration(n) * every) }

// line is an offset at one look after the other: it begins somewhere and grows by as much each time.
type line struct{ from, step int64 }

func (l line) at(n int) int64 { return l.from + l.step*int64(n) }

// series is what is seen of a partition.
type series struct{ committed, end, stable line }

// plain has no transactions: the last stable offset is the end.
func plain(committed, end line) series { return series{committed, end, end} }

// judged is the last report after looks at a group with these partitions of one topic.
func judged(looks int, generation func(n int) int32, all ...series) Report {
	var b Book
	var last Report
	for n := range looks {
		g := Group{ID: "g", Members: 2, Generation: generation(n)}
		for i, s := range all {
			g.Positions = append(g.Positions, Position{Topic: "t", Partition: int32(i), Committed: s.committed.at(n), End: s.end.at(n), Stable: s.stable.at(n)})
		}
		last = b.Judge(at(n), []Group{g})[0]
	}
	return last
}

func steady(int) int32 { return 4 }

func TestStatus(t *testing.T) {
	tests := []struct {
		name string
		all  []series
		want string // of the group, then of each partition
	}{
		{"consumes all", []series{plain(line{0, 100}, line{0, 100})}, "OK OK"},
		{"idle", []series{plain(line{70, 0}, line{70, 0})}, "OK OK"},
		{"behind, but it catches up", []series{plain(line{0, 110}, line{5000, 100})}, "OK OK"},
		{"behind by as much all the time", []series{plain(line{0, 100}, line{5000, 100})}, "OK OK"},
		{"less than a look behind, and a little more each time", []series{plain(line{0, 99}, line{10, 100})}, "OK OK"},
		{"falls behind", []series{plain(line{0, 90}, line{50, 100})}, "WARNING WARNING"},
		{"records wait, none come", []series{plain(line{10, 0}, line{50, 0})}, "WARNING WARNING"},
		{"poison record in one of two", []series{plain(line{7, 0}, line{50, 10}), plain(line{0, 10}, line{0, 10})}, "STALLED STALLED OK"},
		{"hot key", []series{plain(line{0, 50}, line{10, 300}), plain(line{0, 60}, line{0, 60}), plain(line{0, 40}, line{0, 40})}, "HOT_PARTITION HOT_PARTITION OK OK"},
		{"all get as much", []series{plain(line{0, 50}, line{10, 60}), plain(line{0, 50}, line{10, 60})}, "WARNING WARNING WARNING"},
		{"a hot partition that keeps up", []series{plain(line{0, 300}, line{10, 300}), plain(line{0, 60}, line{0, 60})}, "OK OK OK"},
		{"the only partition is not hot", []series{plain(line{0, 50}, line{10, 300})}, "WARNING WARNING"},
		{"transaction hangs", []series{{line{40, 0}, line{60, 10}, line{40, 0}}}, "HUNG_TXN HUNG_TXN"},
		{"transaction hangs, nothing more is written", []series{{line{40, 0}, line{60, 0}, line{40, 0}}}, "HUNG_TXN HUNG_TXN"},
		{"transaction hangs after a marker", []series{{line{39, 0}, line{60, 10}, line{40, 0}}}, "HUNG_TXN HUNG_TXN"},
		{"transactions go on, the consumer does not", []series{{line{40, 0}, line{60, 10}, line{45, 10}}}, "STALLED STALLED"},
		{"transaction hangs far ahead of a stalled consumer", []series{{line{4, 0}, line{600, 10}, line{500, 0}}}, "STALLED STALLED"},
		{"transaction hangs, whoever reads uncommitted does not mind", []series{{line{40, 10}, line{60, 10}, line{40, 0}}}, "OK OK"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := judged(window, steady, test.all...)
			got := r.Status.String()
			for _, p := range r.Partitions {
				got += " " + p.Status.String()
			}
			if got != test.want || !r.Judged {
				t.Errorf("%s (judged %v), want %s", got, r.Judged, test.want)
			}
		})
	}
}

// TestCommitsOfASteadyGroup go up and down: lag of records that are consumed and not committed yet is no trend, wherever the window begins. Beside
// one it hides nothing.
func TestCommitsOfASteadyGroup(t *testing.T) {
	const inflow, looks = 100, 60
	for name, test := range map[string]struct {
		uncommitted []int64 // at one look after the other, again and again
		behind      int64   // records a look by which it falls behind
		want        Status
	}{
		"keeps up, commits every third look": {[]int64{50, 150, 250}, 0, OK},
		"keeps up, commits at any time":      {[]int64{310, 20, 440, 260, 90, 480, 150, 370, 60, 230, 400}, 0, OK},
		"falls behind, commits at any time":  {[]int64{310, 20, 440, 260, 90, 480, 150, 370, 60, 230, 400}, 80, Warning},
	} {
		var b Book
		for n := range looks {
			end := int64(1000 + inflow*n)
			committed := end - test.behind*int64(n) - test.uncommitted[n%len(test.uncommitted)]
			r := b.Judge(at(n), []Group{{ID: "g", Positions: []Position{{Topic: "t", Committed: committed, End: end, Stable: end}}}})[0]
			if r.Judged && r.Status != test.want {
				t.Errorf("%s: %s at look %d, want %s", name, r.Status, n, test.want)
			}
		}
	}
}

// TestJudgesWhenItHasSeenEnough is for a coordinator that has just taken a group over.
func TestJudgesWhenItHasSeenEnough(t *testing.T) {
	stalled := plain(line{7, 0}, line{50, 10})
	for looks := 1; looks <= window; looks++ {
		r := judged(looks, steady, stalled)
		if enough := looks == window; r.Judged != enough || (r.Status == Stalled) != enough {
			t.Errorf("after %d looks: %s, judged %v", looks, r.Status, r.Judged)
		}
	}
	if r := judged(1, steady, plain(line{50, 0}, line{50, 0})); !r.Judged || r.Status != OK {
		t.Errorf("without lag at once: %s, judged %v", r.Status, r.Judged)
	}
	if r := judged(window, steady, series{line{7, 0}, line{Unknown, 0}, line{Unknown, 0}}); r.Judged || r.Partitions[0].Records != Unknown {
		t.Errorf("without an end: %+v", r)
	}
}

func TestRebalanceLoop(t *testing.T) {
	behind, well := plain(line{0, 90}, line{50, 100}), plain(line{0, 100}, line{0, 100})
	each := func(looks int) func(int) int32 { return func(n int) int32 { return int32(n / looks) } }
	tests := []struct {
		name       string
		generation func(int) int32
		all        []series
		want       Status
	}{
		{"every 40 s, falls behind", each(4), []series{behind}, RebalanceLoop},
		{"every 40 s, keeps up", each(4), []series{well}, OK},
		{"every 40 s, commits nothing", each(4), nil, RebalanceLoop},
		{"every 80 s", each(8), []series{behind}, Warning},
		{"a deployment long ago", func(n int) int32 { return int32(min(n, 20)) }, []series{behind}, Warning},
		{"several between two looks", func(n int) int32 { return int32(3 * (n / 10)) }, []series{behind}, RebalanceLoop},
		{"made anew", func(n int) int32 { return int32(50 - n) }, []series{behind}, Warning},
	}
	for _, test := range tests {
		if r := judged(60, test.generation, test.all...); r.Status != test.want {
			t.Errorf("%s: %s, want %s", test.name, r.Status, test.want)
		}
	}
}

// TestRebalancesOfOthers than consumers are no loop: Connect's workers rebalance several times for each that comes or goes.
func TestRebalancesOfOthers(t *testing.T) {
	var b Book
	for n := range 60 {
		if r := b.Judge(at(n), []Group{{ID: "workers", Members: 2, Generation: int32(n), NoConsumers: true}})[0]; r.Status != OK {
			t.Fatalf("after %d rebalances: %s", n, r.Status)
		}
	}
}

func TestLag(t *testing.T) {
	tests := []struct {
		name    string
		s       series
		records int64
		seconds float64
		trend   float64
	}{
		{"none", plain(line{0, 100}, line{0, 100}), 0, 0, 0},
		{"five seconds", plain(line{0, 100}, line{50, 100}), 50, 5, 0},
		{"grows", plain(line{0, 90}, line{10, 100}), 10 + 390, 40, 1},
		{"from before the first look, at the rate since", plain(line{0, 100}, line{12_000, 100}), 12_000, 1200, 0},
		{"of a log at rest: since the first look at least", plain(line{0, 0}, line{7, 0}), 7, 390, 0},
		{"shrinks", plain(line{0, 200}, line{4_000, 100}), 100, 10, -10},
	}
	for _, test := range tests {
		p := judged(40, steady, test.s).Partitions[0]
		if p.Records != test.records || math.Abs(p.Seconds-test.seconds) > 0.01 || math.Abs(p.Trend-test.trend) > 0.01 {
			t.Errorf("%s: %d records, %.2f s, %.2f/s, want %d, %.2f, %.2f", test.name, p.Records, p.Seconds, p.Trend, test.records, test.seconds, test.trend)
		}
	}
}

// TestLongHistory has a consumer stand still for days of looks: its age is still told, within what a thinned trail knows.
func TestLongHistory(t *testing.T) {
	const looks = 30_000
	p := judged(looks, steady, plain(line{100, 0}, line{0, 10})).Partitions[0]
	if want := (looks - 1 - 10) * every.Seconds(); math.Abs(p.Seconds-want) > want/100 {
		t.Errorf("%.0f s, want %.0f", p.Seconds, want)
	}
}

// TestStartsAnew after a reset of the offset, and after the topic was made anew.
func TestStartsAnew(t *testing.T) {
	for name, after := range map[string]Position{
		"offset reset":    {Topic: "t", Committed: 20, End: 200, Stable: 200},
		"topic made anew": {Topic: "t", Committed: 90, End: 95, Stable: 95},
	} {
		var b Book
		for n := range window {
			b.Judge(at(n), []Group{{ID: "g", Positions: []Position{{Topic: "t", Committed: 90, End: 100 + 10*int64(n), Stable: 100}}}})
		}
		r := b.Judge(at(window), []Group{{ID: "g", Positions: []Position{after}}})[0]
		if anew := after.End < 100; r.Judged || (r.Partitions[0].Seconds == 0) != anew {
			t.Errorf("%s: judged by what was before: %+v", name, r)
		}
	}
}

// TestForgets what there is not any more.
func TestForgets(t *testing.T) {
	var b Book
	one := Group{ID: "g", Positions: []Position{{Topic: "t", Committed: 1, End: 2, Stable: 2}, {Topic: "u", Committed: 1, End: 2, Stable: 2}}}
	b.Judge(at(0), []Group{one, {ID: "h"}})
	one.Positions = one.Positions[:1]
	b.Judge(at(1), []Group{one})
	if len(b.groups) != 1 || len(b.groups["g"].partitions) != 1 {
		t.Errorf("%+v", b.groups)
	}
}
