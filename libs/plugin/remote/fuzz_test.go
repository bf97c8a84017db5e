package remote

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/cauce-stream/cauce/libs/plugin/data/wire"
	"github.com/cauce-stream/cauce/libs/plugin/pluginpb"
)

// FuzzSourceBatch puts a batch together of any two pieces: each record of what is taken has a position that can be told.
func FuzzSourceBatch(f *testing.F) {
	piece := func(b *pluginpb.SourceBatch) []byte {
		text, err := proto.Marshal(b)
		if err != nil {
			f.Fatal(err)
		}
		return text
	}
	two := []byte{0x1a, 0, 0x1a, 0} // two records without anything
	f.Add(piece(&pluginpb.SourceBatch{Records: two}), piece(&pluginpb.SourceBatch{Records: two, Partitions: [][]byte{[]byte(`{}`)}, PartitionOf: []uint32{0, 1}, Offsets: [][]byte{nil, []byte(`{}`)}}))
	f.Add(piece(&pluginpb.SourceBatch{Records: two, Partitions: [][]byte{[]byte(`{}`)}, PartitionOf: []uint32{1, 0}}), piece(&pluginpb.SourceBatch{Records: two, Offsets: [][]byte{nil, nil}}))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var decoder wire.Decoder
		batch := &SourceBatch{}
		for _, text := range [][]byte{first, second} {
			b := &pluginpb.SourceBatch{}
			if proto.Unmarshal(text, b) != nil {
				return
			}
			records, err := decoder.Decode(b.Records)
			if err != nil {
				return
			}
			before := len(batch.Records)
			if batch.add(records, b) != nil {
				return
			}
			for i := range records {
				partition, offset := batch.Position(before + i)
				place := uint32(0)
				if len(b.PartitionOf) > 0 {
					place = b.PartitionOf[i]
				}
				if place == 0 && (partition != nil || offset != nil) || place > 0 && string(partition) != string(b.Partitions[place-1]) {
					t.Fatalf("record %d of partition %d is at %s %s", i, place, partition, offset)
				}
			}
		}
	})
}
