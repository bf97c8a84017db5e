package compact

import (
	"crypto/md5"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/cauce-stream/cauce/libs/record"
)

const now = 1_700_000_000_000

func hash(key []byte) (hi, lo uint64) {
	sum := md5.Sum(key)
	return binary.BigEndian.Uint64(sum[:]), binary.BigEndian.Uint64(sum[8:])
}

// data is a batch of key=value; "key" alone deletes the key, "=value" has none. From pid 0 on it is a producer's, from
// 100 on of a transaction.
func data(offset, pid int64, pairs ...string) record.Batch {
	b := record.NewBuilder()
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		var k, v []byte
		if key != "" {
			k = []byte(key)
		}
		if ok {
			v = []byte(value)
		}
		b.Append(now, k, v)
	}
	if pid >= 0 {
		b.SetProducer(pid, 0, 0)
	}
	if pid >= 100 {
		b.SetTransactional()
	}
	return at(offset, must(b.Build(record.None, 0)))
}

func marker(offset, pid int64, how record.ControlType) record.Batch {
	return at(offset, record.EndTransaction(record.Marker{Type: how}, pid, 0, now))
}

func at(offset int64, b record.Batch) record.Batch {
	b.SetBaseOffset(offset)
	return b
}

func must(b record.Batch, err error) record.Batch {
	if err != nil {
		panic(err)
	}
	return b
}

func withHorizon(b record.Batch, ms int64) record.Batch {
	all := func(int) bool { return true }
	return must(record.AppendRewritten(nil, b, all, ms, 0))
}

// show is what is left of a batch.
func show(b record.Batch) string {
	if len(b) == 0 {
		return "-"
	}
	s := fmt.Sprintf("%d-%d", b.BaseOffset(), b.LastOffset())
	if b.HasDeleteHorizon() {
		s += fmt.Sprintf("@%d", b.BaseTimestamp()-now)
	}
	for r, err := range b.Records(0) {
		if err != nil {
			return err.Error()
		}
		switch {
		case b.IsControl():
			s += " control"
		case r.Value == nil:
			s += " " + string(r.Key)
		default:
			s += " " + string(r.Key) + "=" + string(r.Value)
		}
	}
	return s
}

// TestRetained says of each batch of a log what stays. The keys of all are known up to the last.
func TestRetained(t *testing.T) {
	for _, c := range []struct {
		name    string
		batches []record.Batch
		aborted []Aborted
		last    map[int64]LastBatch
		first   int64 // dirty offset
		want    []string
		horizon int64 // next, from now; 0 for never
	}{
		{name: "the newest of each key", batches: []record.Batch{data(0, -1, "a=1", "b=1"), data(2, -1, "a=2")}, want: []string{"0-1 b=1", "2-2 a=2"}},
		{name: "nothing of a batch", batches: []record.Batch{data(0, -1, "a=1"), data(1, -1, "a=2")}, want: []string{"-", "1-1 a=2"}},
		{name: "the last batch of a segment", batches: []record.Batch{data(0, -1, "a=1"), data(5, -1, "=no key")}, want: []string{"0-0 a=1", "5-5"}},
		{name: "a mark gets its horizon", batches: []record.Batch{data(0, -1, "a=1"), data(1, -1, "a", "b=1")}, want: []string{"-", "1-2@1000 a b=1"}, horizon: 1000},
		{name: "a mark keeps its horizon", batches: []record.Batch{withHorizon(data(0, -1, "a", "b=1"), now+7)}, want: []string{"0-1@7 a b=1"}, horizon: 7},
		{name: "a mark's time is over", batches: []record.Batch{withHorizon(data(0, -1, "a", "b=1"), now), data(2, -1, "c=1")}, want: []string{"0-1@0 b=1", "2-2 c=1"}},
		{name: "a mark is superseded", batches: []record.Batch{data(0, -1, "a"), data(1, -1, "a=1")}, want: []string{"-", "1-1 a=1"}},
		{name: "what was compacted before is superseded", first: 3, batches: []record.Batch{data(0, -1, "a=1", "b=1"), data(3, -1, "a=2")}, want: []string{"0-1 b=1", "3-3 a=2"}},
		{name: "a batch that is empty", batches: []record.Batch{record.AppendEmptied(nil, data(0, -1, "a=1", "b=1")), data(2, -1, "a=2")}, want: []string{"-", "2-2 a=2"}},
		{name: "the last of a producer", last: map[int64]LastBatch{1: {Offset: 1}, 2: {Offset: 9}},
			batches: []record.Batch{data(0, 1, "a=1"), data(1, 1, "a=2"), data(2, 2, "a=3"), data(3, -1, "a=4")}, want: []string{"-", "1-1", "-", "3-3 a=4"}},
		{name: "committed", batches: []record.Batch{data(0, 100, "a=1"), marker(1, 100, record.Commit), data(2, -1, "b=1")}, want: []string{"0-0 a=1", "1-1 control", "2-2 b=1"}},
		{name: "aborted, which supersedes nothing", aborted: []Aborted{{100, 1, 2, 3}},
			batches: []record.Batch{data(0, -1, "a=0"), data(1, 100, "a=1"), marker(2, 100, record.Abort), data(3, -1, "b=1")}, want: []string{"0-0 a=0", "-", "2-2 control", "3-3 b=1"}},
		{name: "a marker of what is gone", batches: []record.Batch{marker(1, 100, record.Commit), marker(2, 101, record.Abort), data(3, -1, "b=1")},
			want: []string{"1-1@1000 control", "2-2@1000 control", "3-3 b=1"}, horizon: 1000},
		{name: "a marker of what is gone whose time is over", batches: []record.Batch{withHorizon(marker(1, 100, record.Commit), now), data(3, -1, "b=1")}, want: []string{"-", "3-3 b=1"}},
		{name: "a marker whose time is over and whose records are there", batches: []record.Batch{data(0, 100, "a=1"), withHorizon(marker(1, 100, record.Commit), now), data(3, -1, "b=1")},
			want: []string{"0-0 a=1", "1-1@0 control", "3-3 b=1"}},
		{name: "the last marker of a producer", last: map[int64]LastBatch{100: {Offset: -1}},
			batches: []record.Batch{withHorizon(marker(1, 100, record.Commit), now), data(3, -1, "b=1")}, want: []string{"1-1", "3-3 b=1"}},
		{name: "two transactions of a producer, one aborted", aborted: []Aborted{{100, 0, 1, 2}},
			batches: []record.Batch{data(0, 100, "a=1"), marker(1, 100, record.Abort), data(2, 100, "a=2"), marker(3, 100, record.Commit), data(4, -1, "b=1")},
			want:    []string{"-", "1-1 control", "2-2 a=2", "3-3 control", "4-4 b=1"}},
		{name: "an aborted one whose marker is gone, and a committed one", aborted: []Aborted{{100, 0, 1, 2}},
			batches: []record.Batch{data(2, 100, "a=2"), marker(3, 100, record.Commit), data(4, -1, "b=1")}, want: []string{"2-2 a=2", "3-3 control", "4-4 b=1"}},
		{name: "a change of leaders", batches: []record.Batch{at(0, record.LeaderChange(1, now)), data(1, -1, "a=1")}, want: []string{"-", "1-1 a=1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			keys := NewOffsetMap(c.first, 1<<20, 0.9, hash)
			txns := NewTransactions(slices.Clone(c.aborted))
			for _, b := range c.batches {
				if b.LastOffset() < c.first {
					continue
				}
				if full, err := keys.Note(b, txns, c.first); full || err != nil {
					t.Fatal(full, err)
				}
			}
			f := NewFilter(keys, NewTransactions(c.aborted))
			f.NowMs, f.DeleteRetentionMs, f.Producers = now, 1000, c.last
			f.Level = func(record.Codec) int { return 0 }
			var got []string
			for i, b := range c.batches {
				out, _, err := f.Append(nil, b, i == len(c.batches)-1)
				if err != nil {
					t.Fatal(err)
				}
				if len(out) > 0 {
					if err := record.Batch(out).CheckCRC(); err != nil {
						t.Error(err)
					}
				}
				got = append(got, show(out))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
			next := int64(math.MaxInt64)
			if c.horizon > 0 {
				next = now + c.horizon
			}
			if f.NextHorizonMs != next {
				t.Errorf("next horizon %d, want %d", f.NextHorizonMs-now, next-now)
			}
		})
	}
}

// TestOffsetMap fills a map to its bound beside Go's own.
func TestOffsetMap(t *testing.T) {
	const maxBytes, load = 1 << 20, 0.8
	m := NewOffsetMap(0, maxBytes, load, hash)
	known := map[string]int64{}
	offset := int64(0)
	for ; ; offset++ {
		key := fmt.Sprint(offset * 7 % (offset/2 + 1))
		if !m.Put([]byte(key), offset) {
			break
		}
		known[key] = offset
	}
	for key, want := range known {
		if got := m.Get([]byte(key)); got != want {
			t.Fatalf("key %s at %d, want %d", key, got, want)
		}
	}
	if got := m.Get([]byte("missing")); got != -1 {
		t.Errorf("a key that is not there at %d", got)
	}
	bytes := 0
	for i := range m.shards {
		bytes += slotBytes * len(m.shards[i].slots)
	}
	if fill := m.Fill(); bytes > maxBytes || fill < load*0.85 || fill > load {
		t.Errorf("%d bytes, filled by %.2f", bytes, fill)
	}
}

// TestOffsetMapGrows takes no more memory than a few keys need.
func TestOffsetMapGrows(t *testing.T) {
	m := NewOffsetMap(0, 128<<20, 0.9, hash)
	for i := range int64(10_000) {
		m.Put(fmt.Append(nil, i%100), i)
	}
	slots := 0
	for i := range m.shards {
		slots += len(m.shards[i].slots)
	}
	if slots > shards*2*minSlots {
		t.Errorf("%d slots for 100 keys", slots)
	}
}
