package cluster

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/bus/controlpb"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
)

// A cluster of 1,000,000 partitions on 50 brokers, three replicas each: a broker leads 20,000 and follows 40,000.
const (
	manyBrokers    = 50
	manyTopics     = 50_000
	partsPerTopic  = 20
	manyPartitions = manyTopics * partsPerTopic
)

func manyRecords() []*metadatapb.Record {
	recs := []*metadatapb.Record{clusterRecord("big")}
	recs = append(recs, featureRecords(metadata.InitialFeatures())...)
	for id := range int32(manyBrokers) {
		recs = append(recs, registerRecord(&metadata.Node{
			ID: id, Epoch: 1, Incarnation: [16]byte{byte(id)}, Roles: []string{metadata.RoleBroker},
			Listeners: []metadata.Listener{{Name: "PLAINTEXT", Host: "host", Port: 9092}},
		}))
	}
	for i := range manyTopics {
		topic := metadata.TopicID{byte(i), byte(i >> 8), byte(i >> 16), 1}
		recs = append(recs, topicRecord(fmt.Sprintf("topic.%06d", i), topic))
		for p := range int32(partsPerTopic) {
			n := int32(i*partsPerTopic) + p
			replicas := []int32{n % manyBrokers, (n + 1 + n/manyBrokers%7) % manyBrokers, (n + 20) % manyBrokers}
			recs = append(recs, newPartitionRecord(topic, p, replicas, replicas))
		}
	}
	return recs
}

func manyImage(b *testing.B) *metadata.Image {
	b.Helper()
	im, _, err := metadata.Empty().Apply(1, manyRecords())
	if err != nil {
		b.Fatal(err)
	}
	return im
}

// BenchmarkMillionPartitions is what a controller of a large cluster does all at once: it is not allowed to take as long as a
// session, since meanwhile no heartbeat is heard.
func BenchmarkMillionPartitions(b *testing.B) {
	h := newHarness(b, 1, nil)
	snapshot, err := controlpb.EncodeSnapshot(manyImage(b))
	if err != nil {
		b.Fatal(err)
	}
	im, bytes := restoredImage(b, snapshot)
	b.Run("restore", func(b *testing.B) {
		for b.Loop() {
			if _, err := controlpb.DecodeSnapshot(snapshot); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(len(snapshot))/manyPartitions, "snapshot-B/partition")
		b.ReportMetric(bytes/manyPartitions, "heap-B/partition")
	})
	b.Run("snapshot", func(b *testing.B) {
		for b.Loop() {
			if _, err := controlpb.EncodeSnapshot(im); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("fence", func(b *testing.B) { fenceOne(b, h, im) })
	sessions := NewSessions(im, h.env)
	b.Run("heartbeat", func(b *testing.B) {
		for b.Loop() {
			if _, recs, err := sessions.Heartbeat(im, h.env, Beat{NodeID: 7, Epoch: 1, Offset: im.Offset()}); err != nil || recs != nil {
				b.Fatal(recs, err)
			}
		}
	})
	b.Run("balance", func(b *testing.B) {
		for b.Loop() {
			if recs := BalanceLeaders(im, h.env); recs != nil {
				b.Fatal(len(recs))
			}
		}
	})
	b.Run("list-reassignments", func(b *testing.B) {
		for b.Loop() {
			Handle(im, h.env, kmsg.NewPtrListPartitionReassignmentsRequest(), anyone)
		}
	})
	b.Run("create-topic", func(b *testing.B) {
		for b.Loop() {
			create(b, h, im, newTopicRequest("one.more", 20))
		}
	})
}

// restoredImage is the image and the bytes of heap that it takes.
func restoredImage(b *testing.B, snapshot []byte) (*metadata.Image, float64) {
	b.Helper()
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	before := heap()
	im, err := controlpb.DecodeSnapshot(snapshot)
	if err != nil {
		b.Fatal(err)
	}
	return im, heap() - before
}

// fenceOne measures each step by which a broker that dies is replaced.
func fenceOne(b *testing.B, h *harness, im *metadata.Image) {
	n, _ := im.Node(7)
	var decide, encode, apply time.Duration
	leads, size := 0, 0
	for b.Loop() {
		began := time.Now()
		recs := fence(im, h.env, n)
		UncleanElections(im, recs)
		decided := time.Now()
		batch, err := metadata.AppendBatch(nil, recs)
		if err != nil {
			b.Fatal(err)
		}
		encoded := time.Now()
		next, delta, err := im.Apply(im.Offset()+1, recs)
		if err != nil {
			b.Fatal(err)
		}
		PlaceShards(next, delta)
		decide, encode, apply = decide+decided.Sub(began), encode+encoded.Sub(decided), apply+time.Since(encoded)
		size, leads = len(batch), 0
		for _, r := range recs {
			if c := r.GetPartitionChange(); c != nil && c.Leader != nil {
				leads++
			}
		}
	}
	if leads != manyPartitions/manyBrokers {
		b.Fatalf("%d partitions have another leader", leads)
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 / float64(b.N) }
	b.ReportMetric(ms(decide), "decide-ms")
	b.ReportMetric(ms(encode), "encode-ms")
	b.ReportMetric(ms(apply), "apply-ms")
	b.ReportMetric(float64(size), "batch-B")
}
