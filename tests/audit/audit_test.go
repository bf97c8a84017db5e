package audit

import (
	"slices"
	"strings"
	"testing"

	"github.com/cauce-stream/cauce/libs/record"
	"github.com/cauce-stream/cauce/tests/finding"
)

// batch holds records from an offset on.
func batch(t *testing.T, offset int64, records ...Record) []byte {
	t.Helper()
	b := record.NewBuilder()
	for _, r := range records {
		b.Append(0, nil, r.Value(20))
	}
	built, err := b.Build(record.None, 0)
	if err != nil {
		t.Fatal(err)
	}
	built.SetBaseOffset(offset)
	return built
}

// stored are the bytes of a log whose batches have two records each.
func stored(t *testing.T, records ...Record) []byte {
	t.Helper()
	var data []byte
	offset := int64(0)
	for pair := range slices.Chunk(records, 2) {
		data = append(data, batch(t, offset, pair...)...)
		offset += int64(len(pair))
	}
	return data
}

// of are records of a producer.
func of(producer int32, numbers ...int64) []Record {
	var all []Record
	for _, n := range numbers {
		all = append(all, Record{producer, n})
	}
	return all
}

func acks(offsets ...int64) []Ack {
	var all []Ack
	for n, offset := range offsets {
		all = append(all, Ack{int64(n), offset})
	}
	return all
}

func sights(from int64, records ...Record) []Sight {
	var all []Sight
	for i, r := range records {
		all = append(all, Sight{from + int64(i), r})
	}
	return all
}

// sound is a history without a fault: producer 1 is idempotent, and producer 2, which is not, sent its record 1 twice.
func sound(t *testing.T) Partition {
	records := []Record{{1, 0}, {2, 0}, {1, 1}, {2, 1}, {2, 1}, {1, 2}}
	data := stored(t, records...)
	return Partition{
		Topic: "t", HighWatermark: 6,
		Producers: map[int32]Producer{
			1: {Idempotent: true, Sent: 4, Acks: acks(0, 2, 5)},
			2: {Sent: 2, Acks: []Ack{{0, 1}, {1, 4}}},
		},
		Replicas: []Replica{{1, data}, {2, append(slices.Clone(data), batch(t, 6, Record{1, 3})...)}},
		Views:    []View{{"a", sights(0, records...)}, {"b", sights(2, records[2:4]...)}},
	}
}

func TestSoundHistory(t *testing.T) {
	if found := Check(sound(t)); len(found) > 0 {
		t.Errorf("found %+v", found)
	}
	if found := Check(Partition{}); len(found) > 0 {
		t.Errorf("in an empty partition: %+v", found)
	}
}

// marked is the log of producer 4, whose record 1 was in a transaction that failed before it was written.
func marked(t *testing.T) []byte {
	t.Helper()
	marker := record.EndTransaction(record.Marker{Type: record.Commit}, 7, 0, 0)
	marker.SetBaseOffset(2)
	return slices.Concat(batch(t, 0, Record{4, 0}, Record{4, 2}), marker, batch(t, 3, Record{4, 3}))
}

func TestTransactionalProducer(t *testing.T) {
	data := marked(t)
	p := Partition{
		HighWatermark: 4, Producers: map[int32]Producer{4: {Transactional: true, Sent: 4, Acks: []Ack{{0, 0}, {2, 1}, {3, 3}}}},
		Replicas: []Replica{{1, data}},
		Views:    []View{{"a", sights(0, Record{4, 0}, Record{4, 2}, Marker, Record{4, 3})}},
	}
	if found := Check(p); len(found) > 0 {
		t.Errorf("found %+v", found)
	}
	twice := append(slices.Clone(data), batch(t, 4, Record{4, 3})...)
	p.HighWatermark, p.Replicas[0].Data = 5, twice
	if found := Check(p); len(found) != 1 || found[0].Kind != Duplicated {
		t.Errorf("a record that is there twice: found %+v", found)
	}
}

func TestViolationsAreFound(t *testing.T) {
	// replicas gives both replicas the same content, and nobody has read anything.
	replicas := func(p *Partition, data []byte, end int64) {
		p.Replicas, p.HighWatermark, p.Views = []Replica{{1, data}, {2, data}}, end, nil
	}
	first := func(p *Partition, change func(*Producer)) {
		producer := p.Producers[1]
		change(&producer)
		p.Producers[1] = producer
	}
	tests := []struct {
		name     string
		change   func(t *testing.T, p *Partition)
		want     []finding.Kind
		examples string
	}{
		{"an acknowledged record is not there", func(_ *testing.T, p *Partition) {
			first(p, func(x *Producer) { x.Acks = append(x.Acks, Ack{3, 6}) })
		}, []finding.Kind{Lost}, "record 3 of producer 1, acknowledged at offset 6"},
		{"another one is there instead", func(t *testing.T, p *Partition) {
			replicas(p, stored(t, Record{1, 0}, Record{2, 0}, Record{2, 1}), 3)
			first(p, func(x *Producer) { x.Acks = acks(0, 2) })
			p.Producers[2] = Producer{Sent: 2}
		}, []finding.Kind{Lost}, "record 1 of producer 1, acknowledged at offset 2"},
		{"a record is not where it was acknowledged", func(_ *testing.T, p *Partition) {
			first(p, func(x *Producer) { x.Acks[2].Offset = 4 })
		}, []finding.Kind{Misplaced}, "acknowledged at offset 4, is at offset 5"},
		{"the log ends before the acknowledged offset", func(_ *testing.T, p *Partition) {
			first(p, func(x *Producer) { x.Acks[2].Offset = 100 })
		}, []finding.Kind{Misplaced}, "acknowledged at offset 100"},
		{"the cluster did not know the offset any more", func(_ *testing.T, p *Partition) {
			first(p, func(x *Producer) { x.Acks[2].Offset = -1 })
		}, nil, ""},
		{"an idempotent producer's records changed places", func(t *testing.T, p *Partition) {
			replicas(p, stored(t, of(1, 0, 2, 1)...), 3)
			p.Producers = map[int32]Producer{1: {Idempotent: true, Sent: 3, Acks: acks(0, 2, 1)}}
		}, []finding.Kind{Reordered, Skipped}, "record 1 of producer 1 is at offset 2, behind record 2"},
		{"another producer's records changed places", func(t *testing.T, p *Partition) {
			replicas(p, stored(t, of(1, 0, 2, 1)...), 3)
			p.Producers = map[int32]Producer{1: {Sent: 3, Acks: acks(0, 2, 1)}}
		}, []finding.Kind{Reordered}, "behind record 2"},
		{"an idempotent producer's batch is there twice", func(t *testing.T, p *Partition) {
			replicas(p, stored(t, of(1, 0, 1, 0, 1)...), 4)
			p.Producers = map[int32]Producer{1: {Idempotent: true, Sent: 2, Acks: acks(0, 1)}}
		}, []finding.Kind{Duplicated}, "record 0 of producer 1 is at offsets 0 and 2"},
		{"an unacknowledged record of an idempotent producer is missing before a later one", func(t *testing.T, p *Partition) {
			replicas(p, stored(t, of(1, 0, 2)...), 2)
			p.Producers = map[int32]Producer{1: {Idempotent: true, Sent: 3, Acks: acks(0)}}
		}, []finding.Kind{Skipped}, "record 2 of producer 1 is at offset 1, behind record 0"},
		{"a record that was never sent", func(t *testing.T, p *Partition) {
			replicas(p, stored(t, of(3, 0)...), 1)
			p.Producers = nil
		}, []finding.Kind{Unknown}, "offset 0: record 0 of producer 3"},
		{"offsets are left out", func(t *testing.T, p *Partition) {
			replicas(p, append(batch(t, 0, of(1, 0, 1)...), batch(t, 3, of(1, 2)...)...), 4)
			p.Producers = map[int32]Producer{1: {Idempotent: true, Sent: 3, Acks: acks(0, 1)}}
		}, []finding.Kind{Gap}, "a batch at 3 behind offset 1"},
		{"a replica ends below the high watermark", func(t *testing.T, p *Partition) {
			p.Replicas[1].Data = stored(t, Record{1, 0}, Record{2, 0}, Record{1, 1}, Record{2, 1})
		}, []finding.Kind{Gap, Differing}, "node 2 ends at offset 4, the high watermark is 6"},
		{"a byte of a replica has changed", func(_ *testing.T, p *Partition) {
			p.Replicas[1].Data = slices.Clone(p.Replicas[1].Data)
			p.Replicas[1].Data[100] ^= 1
		}, []finding.Kind{Corrupt, Differing}, "node 2: batch at offset 0"},
		{"replicas have the same records in other batches", func(t *testing.T, p *Partition) {
			p.Replicas[1].Data = append(batch(t, 0, Record{1, 0}, Record{2, 0}, Record{1, 1}, Record{2, 1}), batch(t, 4, Record{2, 1}, Record{1, 2})...)
		}, []finding.Kind{Differing}, "nodes 1 and 2"},
		{"a consumer was given what was given up later", func(_ *testing.T, p *Partition) {
			p.Views[0].Sights[5].Record = Record{2, 7}
		}, []finding.Kind{Dirty}, "a was given record 7 of producer 2 at offset 5, where record 2 of producer 1 is"},
		{"a consumer was given more than there is", func(_ *testing.T, p *Partition) {
			p.Views[0].Sights = append(p.Views[0].Sights, Sight{6, Record{1, 3}})
		}, []finding.Kind{Dirty}, "the log ends at 6"},
		{"a consumer skipped an offset", func(_ *testing.T, p *Partition) {
			p.Views[0].Sights = slices.Delete(p.Views[0].Sights, 2, 3)
		}, []finding.Kind{Unordered}, "a was given offset 3 after 1"},
		{"a consumer went back", func(_ *testing.T, p *Partition) {
			p.Views[1].Sights = append(p.Views[1].Sights, p.Views[1].Sights[0])
		}, []finding.Kind{Unordered}, "b was given offset 2 after 3"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := sound(t)
			test.change(t, &p)
			var kinds []finding.Kind
			var examples []string
			for _, f := range Check(p) {
				kinds = append(kinds, f.Kind)
				examples = append(examples, f.Examples...)
			}
			if !slices.Equal(kinds, test.want) {
				t.Errorf("found %v, want %v: %q", kinds, test.want, examples)
			}
			if !strings.Contains(strings.Join(examples, "\n"), test.examples) {
				t.Errorf("examples are %q, want %q", examples, test.examples)
			}
		})
	}
}

// TestExamplesAreFew has one kind of violation many times over: each counts, a few are told.
func TestExamplesAreFew(t *testing.T) {
	p := sound(t)
	p.Producers = map[int32]Producer{}
	found := Check(p)
	if len(found) != 1 || found[0].Kind != Unknown || found[0].Count != 6 || len(found[0].Examples) != finding.MaxExamples {
		t.Errorf("found %+v", found)
	}
}

func TestValuesTellWhatTheyAre(t *testing.T) {
	for _, size := range []int{0, 12, 500} {
		want := Record{7, 1 << 40}
		value := want.Value(size)
		if got, err := Parse(value); err != nil || got != want || len(value) < size {
			t.Errorf("size %d: %v, %v of %d bytes", size, got, err, len(value))
		}
	}
	if _, err := Parse([]byte("short")); err == nil {
		t.Error("a foreign value was taken for a record")
	}
}
