package broker

import (
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/cauce-stream/cauce/libs/crc32c"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
	"github.com/cauce-stream/cauce/libs/record"
	"github.com/cauce-stream/cauce/services/broker/internal/partition"
)

// openBroker opens a broker over dir without a listener.
func openBroker(t *testing.T, dir string) *testBroker {
	t.Helper()
	s, err := New(t.Context(), Config{NodeID: testNode, LogDirs: []string{dir}, Static: configkeys.Broker().Defaults()},
		Deps{Log: zaptest.NewLogger(t, zaptest.Level(zap.ErrorLevel))})
	if err != nil {
		t.Fatal(err)
	}
	return &testBroker{Service: s, t: t, image: metadata.Empty()}
}

func (b *testBroker) append(topic string, records []byte) {
	b.t.Helper()
	p, err := b.parts.Lookup(topic, metadata.TopicID{}, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	var done partition.Done
	if _, err := p.Append(records, crc32c.Checksum(records[record.AttributesAt:]), nil, false, time.Now().UnixMilli(), &done); err != nil {
		b.t.Fatal(err)
	}
}

func (b *testBroker) close() {
	b.t.Helper()
	if err := b.Close(); err != nil {
		b.t.Fatal(err)
	}
}

// A broker that has no metadata yet must not apply a default retention to topics that are kept for ever.
func TestNothingIsRemovedBeforeTheMetadataIsKnown(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-30 * 24 * time.Hour).UnixMilli()
	b := openBroker(t, dir)
	b.createTopic("forever", 1, "retention.ms", "-1", "segment.bytes", "1048576")
	for range 3 {
		build := record.NewBuilder()
		build.Append(old, nil, make([]byte, 600<<10))
		records, err := build.Build(record.None, 0)
		if err != nil {
			t.Fatal(err)
		}
		b.append("forever", records)
	}
	b.close()
	b = openBroker(t, dir)
	defer b.close()
	b.logs.Retain(time.Now().UnixMilli())
	if l, _ := b.logs.Log("forever", 0); l.StartOffset() != 0 {
		t.Errorf("records 0-%d of a topic with retention.ms=-1 are gone", l.StartOffset()-1)
	}
}

// A restarted broker may be given the metadata from its beginning, batch by batch. What history says of a replica that
// went away and came back must not remove what is on the disk now.
func TestHistoryRemovesNothing(t *testing.T) {
	id := metadata.TopicID{0: 0xca, 15: 1}
	moved := func(replicas ...int32) *metadatapb.Record {
		ids := &metadatapb.Replicas{Ids: replicas}
		return &metadatapb.Record{Record: &metadatapb.Record_PartitionChange{PartitionChange: &metadatapb.PartitionChangeRecord{
			TopicId: id[:], Replicas: ids, Isr: ids, Leader: &replicas[0],
		}}}
	}
	history := func(b *testBroker) {
		b.createTopic("back", 1)
		b.apply(moved(testNode + 1))
		b.apply(moved(testNode))
	}
	dir := t.TempDir()
	b := openBroker(t, dir)
	history(b)
	b.append("back", batch(record.None, "v"))
	b.close()
	b = openBroker(t, dir)
	defer b.close()
	history(b)
	b.parts.Settle()
	p, err := b.parts.Lookup("back", metadata.TopicID{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if l, err := p.Log(); err != nil || l.EndOffset() != 1 {
		t.Errorf("the log ends at %d after the restart, want 1 (%v)", l.EndOffset(), err)
	}
	b.apply(moved(testNode + 1)) // now it is the present
	if _, ok := b.logs.Log("back", 0); ok {
		t.Error("the log of a replica that moved away is kept")
	}
}

// Epochs that a replica led in the past began where its log ended then. It may have lost records since, and followers of its next
// leadership cut off what lies behind the end of an epoch.
func TestHistoryBeginsNoEpochs(t *testing.T) {
	b := openBroker(t, t.TempDir()) // which has lost everything
	defer b.close()
	id := b.createTopic("led", 1)
	leads := func(leader int32) {
		b.apply(&metadatapb.Record{Record: &metadatapb.Record_PartitionChange{PartitionChange: &metadatapb.PartitionChangeRecord{
			TopicId: id[:], Replicas: &metadatapb.Replicas{Ids: []int32{testNode, testNode + 1}}, Leader: &leader,
		}}})
	}
	leads(testNode + 1)
	leads(testNode)
	leads(testNode + 1)
	p, err := b.parts.Lookup("led", metadata.TopicID{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	l, err := p.Log()
	if err != nil {
		t.Fatal(err)
	}
	if epoch := l.LatestEpoch(); epoch != -1 {
		t.Errorf("epoch %d has begun in a log of which the history is gone through", epoch)
	}
	b.parts.Settle()
	leads(testNode)
	state, _ := b.image.Partition(id, 0)
	now := state.LeaderEpoch
	if epoch := l.LatestEpoch(); epoch != now {
		t.Errorf("the log's epoch is %d, that of its leader %d", epoch, now)
	}
}
