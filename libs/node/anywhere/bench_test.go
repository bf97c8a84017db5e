package anywhere

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
)

// BenchmarkMetadataOfAllTopics describes 1,000 topics of 10 partitions.
func BenchmarkMetadataOfAllTopics(b *testing.B) {
	f := newFake(b)
	for i := range 1000 {
		var partitions []*metadatapb.PartitionRecord
		for range 10 {
			partitions = append(partitions, partition(1, 0, 1, 2, 3))
		}
		f.apply(b, topicRecords(fmt.Sprintf("topic-%d", i), [16]byte{1, byte(i >> 8), byte(i)}, partitions...)...)
	}
	q := &kmsg.MetadataRequest{Version: 12}
	var encoded []byte
	b.ReportAllocs()
	for b.Loop() {
		v := newView(f.Image(), f.ID(), "PLAINTEXT")
		resp := kmsg.NewPtrMetadataResponse()
		resp.SetVersion(q.Version)
		for t := range v.im.Topics() {
			resp.Topics = append(resp.Topics, v.topic(t, q))
		}
		encoded = resp.AppendTo(encoded[:0])
	}
	b.ReportMetric(float64(len(encoded)), "B/response")
}
