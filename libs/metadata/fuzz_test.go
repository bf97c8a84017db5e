package metadata

import (
	"bytes"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
)

// FuzzNextBatch feeds bytes that are no log: they must be refused or give
// records that survive being written again, and that either fit an image, whose
// snapshot then gives it again, or are refused by it.
func FuzzNextBatch(f *testing.F) {
	id := TopicID{1}
	good, err := AppendBatch(nil, []*metadatapb.Record{
		topicRecord("a", id),
		partitionRecord(id, &Partition{Leader: 1, Replicas: []int32{1, 2}, ISR: []int32{1}}),
		configRecord(Resource{TopicConfig, "a"}, "retention.ms", proto.String("1")),
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add([]byte{})
	f.Add([]byte{0})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, data []byte) {
		im := Empty()
		for len(data) > 0 {
			recs, rest, err := NextBatch(data)
			if err != nil {
				return
			}
			if len(rest) >= len(data) {
				t.Fatalf("%d bytes left of %d", len(rest), len(data))
			}
			data = rest
			again, err := AppendBatch(nil, recs)
			if err != nil {
				t.Fatal(err)
			}
			back, _, err := NextBatch(again)
			if err != nil || !slices.EqualFunc(recs, back, func(a, b *metadatapb.Record) bool { return proto.Equal(a, b) }) {
				twice, _ := AppendBatch(nil, back) // NaN differs from itself
				if err != nil || !bytes.Equal(again, twice) {
					t.Fatalf("%v is read back as %v, %v", recs, back, err)
				}
			}
			if next, _, err := im.Apply(im.Offset()+1, recs); err == nil {
				im = next
			}
		}
		same, _, err := Empty().Apply(im.Offset()+1, slices.Collect(im.Records()))
		if err != nil || dump(same) != dump(im) {
			t.Fatalf("image\n%s\nfrom its snapshot\n%v %v", dump(im), same, err)
		}
	})
}
