package sinktask

import (
	"maps"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/data"
)

var (
	p0 = plugin.TopicPartition{Topic: "orders", Partition: 0}
	p1 = plugin.TopicPartition{Topic: "orders", Partition: 1}
)

func TestCommittable(t *testing.T) {
	positions := map[plugin.TopicPartition]*position{p0: {consumed: 10, epoch: 3, committed: 4}, p1: {consumed: 7, epoch: 1, committed: 7}}
	asked := map[plugin.TopicPartition]int64{p0: 10}
	for _, test := range []struct {
		name     string
		answered map[plugin.TopicPartition]int64
		commit   map[plugin.TopicPartition]end
		ignored  int
	}{
		{"all", map[plugin.TopicPartition]int64{p0: 10}, map[plugin.TopicPartition]end{p0: {10, 3}}, 0},
		{"some", map[plugin.TopicPartition]int64{p0: 6}, map[plugin.TopicPartition]end{p0: {6, unknown}}, 0},
		{"less than before", map[plugin.TopicPartition]int64{p0: 2}, map[plugin.TopicPartition]end{p0: {2, unknown}}, 0},
		{"what is committed", map[plugin.TopicPartition]int64{p0: 4}, nil, 0},
		{"nothing", nil, nil, 0},
		{"too much", map[plugin.TopicPartition]int64{p0: 11}, nil, 1},
		{"negative", map[plugin.TopicPartition]int64{p0: -1}, nil, 1},
		{"not asked for", map[plugin.TopicPartition]int64{p1: 7, {Topic: "x"}: 1}, nil, 2},
	} {
		commit, ignored := committable(positions, asked, test.answered)
		if !maps.Equal(commit, test.commit) || len(ignored) != test.ignored {
			t.Errorf("%s: commits %v, ignores %v", test.name, commit, ignored)
		}
	}
}

func TestBatchWithout(t *testing.T) {
	var b batch
	b.reset()
	for _, p := range []plugin.TopicPartition{p0, p1, p0} {
		b.records = append(b.records, plugin.SinkRecord{Record: data.NewRecord("routed", data.Value{}, data.Value{}), Original: p})
		b.ends[p] = end{1, 0}
	}
	b.attempts = 2
	b.without(p0)
	if len(b.records) != 1 || b.records[0].Original != p1 || len(b.ends) != 1 || !b.pending() {
		t.Errorf("has %v", b)
	}
	b.without(p1)
	if len(b.records) != 0 || b.pending() {
		t.Errorf("has %v, although there is nothing to put again", b)
	}
}

func TestHeld(t *testing.T) {
	h := held{maxBytes: 5 * heldSize(&kgo.Record{})}
	record := func(p plugin.TopicPartition, offset int64) *kgo.Record {
		return &kgo.Record{Topic: p.Topic, Partition: p.Partition, Offset: offset}
	}
	for _, offset := range []int64{3, 5, 8} {
		h.add(record(p0, offset))
		h.add(record(p1, offset+100))
	}
	has := func(p plugin.TopicPartition, want ...int64) {
		t.Helper()
		if len(h.of[p]) != len(want) {
			t.Errorf("%d records of %v, want %v", len(h.of[p]), p, want)
			return
		}
		for _, offset := range want {
			if r := h.find(p, offset); r == nil || r.Offset != offset {
				t.Errorf("%v@%d is not there", p, offset)
			}
		}
	}
	has(p0, 3, 5, 8)
	has(p1, 105, 108) // the sixth was too much
	if h.find(p0, 4) != nil || h.find(plugin.TopicPartition{}, 3) != nil {
		t.Error("found what was not added")
	}
	h.below(p0, 5)
	has(p0, 5, 8)
	h.add(record(p0, 8)) // again
	has(p0, 5, 8)
	h.from(p0, 5)
	has(p0)
	h.from(p1, 0)
	if h.bytes != 0 || len(h.of) != 0 {
		t.Errorf("%d bytes are left, %v", h.bytes, h.of)
	}
}
