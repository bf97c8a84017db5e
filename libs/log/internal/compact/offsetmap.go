// Package compact decides what compaction leaves of a log (cleanup.policy=compact): of each key the newest record, the
// marks of deleted keys until their time is over (KIP-534), and of transactions nothing that was aborted. It sees batches
// in the order of the log and says what stays of each.
package compact

import "math/bits"

// OffsetMap knows the last offset of each key, in bounded memory: 24 bytes for each key, of which it keeps a hash of 128
// bits only. It grows with the keys it holds.
type OffsetMap struct {
	hash     func(key []byte) (hi, lo uint64)
	shards   [shards]shard // which grow one by one, so that little is held twice meanwhile
	maxSlots int           // of a shard
	load     float64
	used     int
	latest   int64
}

const (
	shardBits = 6
	shards    = 1 << shardBits
	slotBytes = 24
	minSlots  = 8
	looseLoad = 0.7 // below which a shard that can grow is kept, so that lookups are short
)

type shard struct {
	slots []slot
	used  int
}

// slot is empty while next, the offset plus one, is 0.
type slot struct {
	hi, lo uint64
	next   int64
}

// NewOffsetMap returns an empty map for the keys from offset first on. It takes at most maxBytes (but 12 KiB), of which load,
// between 0 and 1, is filled. Keys of the same hash count as one, so that it must be good.
func NewOffsetMap(first, maxBytes int64, load float64, hash func(key []byte) (hi, lo uint64)) *OffsetMap {
	return &OffsetMap{hash: hash, maxSlots: int(max(maxBytes/shards/slotBytes, minSlots)), load: min(max(load, 0.1), 0.99), latest: first - 1}
}

// Put notes that key was last seen at offset, which is above all before. It returns false when there is no room.
func (m *OffsetMap) Put(key []byte, offset int64) bool {
	hi, lo := m.hash(key)
	s := &m.shards[lo>>(64-shardBits)]
	at, found := s.find(hi, lo)
	if found {
		s.slots[at].next = offset + 1
		return true
	}
	if s.used >= m.capacity(len(s.slots)) {
		if len(s.slots) == m.maxSlots {
			return false
		}
		s.grow(min(max(2*len(s.slots), minSlots), m.maxSlots))
		at, _ = s.find(hi, lo)
	}
	s.slots[at] = slot{hi, lo, offset + 1}
	s.used++
	m.used++
	return true
}

// capacity is how many of n slots are filled.
func (m *OffsetMap) capacity(n int) int {
	load := m.load
	if n < m.maxSlots {
		load = looseLoad
	}
	return min(int(float64(n)*load), n-1)
}

// Get is the last offset of key, or -1.
func (m *OffsetMap) Get(key []byte) int64 {
	hi, lo := m.hash(key)
	s := &m.shards[lo>>(64-shardBits)]
	at, found := s.find(hi, lo)
	if !found {
		return -1
	}
	return s.slots[at].next - 1
}

// Latest is the last offset that the map takes account of: what lies above is unknown to it.
func (m *OffsetMap) Latest() int64 { return m.latest }

// Fill is the share of its memory bound that the map's keys take.
func (m *OffsetMap) Fill() float64 { return float64(m.used) / float64(m.maxSlots*shards) }

// find is where the key lies, or would be put. There is an empty slot, or none at all.
func (s *shard) find(hi, lo uint64) (at int, found bool) {
	n := len(s.slots)
	if n == 0 {
		return 0, false
	}
	first, _ := bits.Mul64(hi, uint64(n))
	for at = int(first); s.slots[at].next != 0; {
		if s.slots[at].hi == hi && s.slots[at].lo == lo {
			return at, true
		}
		if at++; at == n {
			at = 0
		}
	}
	return at, false
}

func (s *shard) grow(n int) {
	old := s.slots
	s.slots = make([]slot, n)
	for _, x := range old {
		if x.next != 0 {
			at, _ := s.find(x.hi, x.lo)
			s.slots[at] = x
		}
	}
}
