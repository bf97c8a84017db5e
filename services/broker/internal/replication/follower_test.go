package replication

import "testing"

// history is a log's leader epochs: where each begins.
type history struct {
	starts []start
	end    int64
}

type start struct {
	epoch int32
	at    int64
}

func (h history) StartOffset() int64 { return 0 }

func (h history) EndOffset() int64 { return h.end }

func (h history) EndOffsetForEpoch(epoch int32) (int32, int64) {
	found, next := int32(-1), h.end
	for _, s := range h.starts {
		if s.epoch > epoch {
			next = s.at
			break
		}
		found = s.epoch
	}
	switch n := len(h.starts); {
	case epoch < 0 || n == 0 || epoch > h.starts[n-1].epoch:
		return -1, -1
	case found < 0:
		return epoch, next
	}
	return found, next
}

// The cases of KIP-279 and KIP-101 as Kafka decides them.
func TestTruncateTo(t *testing.T) {
	log := history{[]start{{1, 2}, {3, 10}, {5, 20}}, 30}
	for _, c := range []struct {
		name      string
		epoch     int32
		endOffset int64
		want      int64
	}{
		{"the leader has less of the same epoch", 5, 25, 25},
		{"the leader has more of the same epoch", 5, 40, 30},
		{"the leader never had the last epoch", 3, 15, 15},
		{"the leader has more of an earlier epoch", 3, 28, 20},
		{"the leader has an epoch that is unknown here", 4, 26, 20},
		{"the leader has an epoch before all that are known here", 0, 5, 2},
		{"the leader knows no epoch", -1, 12, 12},
		{"the leader knows nothing", -1, -1, 30},
	} {
		if got := TruncateTo(log, c.epoch, c.endOffset); got != c.want {
			t.Errorf("%s: truncated to %d, want %d", c.name, got, c.want)
		}
	}
}

func TestOutOfRange(t *testing.T) {
	for _, c := range []struct {
		end, leaderStart, leaderEnd int64
		want                        Resume
	}{
		{100, 0, 60, Resume{Offset: 60}},
		{100, 150, 200, Resume{Restart: true, Offset: 150}},
		{100, 50, 200, Resume{Offset: 100}},
		{100, 100, 100, Resume{Offset: 100}},
	} {
		if got := OutOfRange(c.end, c.leaderStart, c.leaderEnd); got != c.want {
			t.Errorf("own end %d, leader [%d, %d): %+v, want %+v", c.end, c.leaderStart, c.leaderEnd, got, c.want)
		}
	}
}
