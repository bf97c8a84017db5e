package sinktask

import (
	"slices"
	"sort"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/tracing"
)

// unknown is the offset of a position that there is not yet.
const unknown = -1

// position is how far a partition is.
type position struct {
	// consumed is the offset after the last record that was put or left out, epoch its leader's.
	consumed int64
	epoch    int32
	// committed is the offset that was committed last, or where reading began.
	committed int64
}

// end is the offset after a record, and the epoch of the leader that it was read from.
type end struct {
	offset int64
	epoch  int32
}

// batch is what was read last. Until it is put nothing more is read.
type batch struct {
	records []plugin.SinkRecord
	// ends are those of the partitions that were read from, records that were left out included.
	ends    map[plugin.TopicPartition]end
	origins tracing.Origins
	// attempts count the times that putting it has failed.
	attempts int
}

// pending says that the batch is to be put again.
func (b *batch) pending() bool { return b.attempts > 0 }

// reset empties the batch, whose memory the next one uses: what was put has been sent.
func (b *batch) reset() {
	clear(b.records)
	b.records, b.attempts = b.records[:0], 0
	b.origins.Reset()
	if b.ends == nil {
		b.ends = map[plugin.TopicPartition]end{}
	}
	clear(b.ends)
}

// without drops the records of a partition.
func (b *batch) without(p plugin.TopicPartition) {
	if _, ok := b.ends[p]; !ok {
		return
	}
	delete(b.ends, p)
	b.records = slices.DeleteFunc(b.records, func(r plugin.SinkRecord) bool { return r.Original == p })
	if len(b.ends) == 0 {
		b.attempts = 0
	}
}

// committable holds what a connector says may be committed against what was put: offsets beyond it, and of partitions that were not asked for, do
// not count; nor does what is committed already.
func committable(positions map[plugin.TopicPartition]*position, asked, answered map[plugin.TopicPartition]int64) (commit map[plugin.TopicPartition]end, ignored map[plugin.TopicPartition]int64) {
	commit, ignored = map[plugin.TopicPartition]end{}, map[plugin.TopicPartition]int64{}
	for p, offset := range answered {
		consumed, ok := asked[p]
		at := positions[p]
		switch {
		case !ok || at == nil || offset > consumed || offset < 0:
			ignored[p] = offset
		case offset == at.committed:
		case offset == at.consumed:
			commit[p] = end{offset, at.epoch}
		default:
			commit[p] = end{offset, unknown}
		}
	}
	return commit, ignored
}

const (
	// maxHeldBytes bounds the records that are held for the case that the connector reports them.
	maxHeldBytes = 64 << 20
	// heldOverhead is about what a record takes besides its bytes.
	heldOverhead = 300
)

// held are the records that were put and that the connector may still report, as they were in their topics, in the order of their offsets. Beyond
// the bound the oldest are forgotten.
type held struct {
	of       map[plugin.TopicPartition][]*kgo.Record
	bytes    int
	maxBytes int
}

func heldSize(r *kgo.Record) int { return len(r.Key) + len(r.Value) + heldOverhead }

// add holds a record. One that is read again takes the place of itself and of all after it.
func (h *held) add(r *kgo.Record) {
	p := plugin.TopicPartition{Topic: r.Topic, Partition: r.Partition}
	if list := h.of[p]; len(list) > 0 && list[len(list)-1].Offset >= r.Offset {
		h.from(p, r.Offset)
	}
	if h.of == nil {
		h.of = map[plugin.TopicPartition][]*kgo.Record{}
	}
	h.of[p] = append(h.of[p], r)
	h.bytes += heldSize(r)
	for h.bytes > h.maxBytes && len(h.of[p]) > 1 {
		h.below(p, h.of[p][0].Offset+1)
	}
}

// find returns the record at an offset, or nil.
func (h *held) find(p plugin.TopicPartition, offset int64) *kgo.Record {
	if i := h.index(p, offset); i < len(h.of[p]) && h.of[p][i].Offset == offset {
		return h.of[p][i]
	}
	return nil
}

func (h *held) index(p plugin.TopicPartition, offset int64) int {
	list := h.of[p]
	return sort.Search(len(list), func(i int) bool { return list[i].Offset >= offset })
}

// below forgets the records before an offset.
func (h *held) below(p plugin.TopicPartition, offset int64) {
	h.cut(p, 0, h.index(p, offset))
}

// from forgets the records from an offset on.
func (h *held) from(p plugin.TopicPartition, offset int64) {
	h.cut(p, h.index(p, offset), len(h.of[p]))
}

func (h *held) cut(p plugin.TopicPartition, from, to int) {
	list := h.of[p]
	for _, r := range list[from:to] {
		h.bytes -= heldSize(r)
	}
	clear(list[from:to])
	switch {
	case from == 0 && to == len(list):
		delete(h.of, p)
	case from == 0:
		h.of[p] = list[to:]
	default:
		h.of[p] = list[:from]
	}
}

func byTopic[T any](of map[plugin.TopicPartition]T, value func(plugin.TopicPartition, T) kgo.EpochOffset) map[string]map[int32]kgo.EpochOffset {
	all := map[string]map[int32]kgo.EpochOffset{}
	for p, v := range of {
		if all[p.Topic] == nil {
			all[p.Topic] = map[int32]kgo.EpochOffset{}
		}
		all[p.Topic][p.Partition] = value(p, v)
	}
	return all
}

func lists(partitions []plugin.TopicPartition) map[string][]int32 {
	all := map[string][]int32{}
	for _, p := range partitions {
		all[p.Topic] = append(all[p.Topic], p.Partition)
	}
	return all
}
