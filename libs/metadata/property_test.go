package metadata

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
)

// dump is everything that can be read of an image, offset aside.
func dump(im *Image) string {
	var b strings.Builder
	fmt.Fprintf(&b, "cluster %q controller %d epoch %d next producer %d features %v counts %d %d\n", im.ClusterID(),
		im.ControllerID(), im.ControllerEpoch(), im.NextProducerID(), im.Features(), im.TopicCount(), im.PartitionCount())
	for n := range im.Nodes() {
		byID, ok := im.Node(n.ID)
		fmt.Fprintf(&b, "node %+v %v\n", *n, ok && byID == n)
	}
	for t := range im.Topics() {
		byName, ok1 := im.Topic(t.Name)
		byID, ok2 := im.TopicByID(t.ID)
		fmt.Fprintf(&b, "topic %s %s %v\n", t.Name, t.ID, ok1 && ok2 && byName == t && byID == t)
		if other, ok := im.CollidingTopic(t.Name); ok {
			fmt.Fprintf(&b, "  collides with %s\n", other.Name)
		}
		for _, p := range t.Partitions {
			fmt.Fprintf(&b, "  %+v\n", *p)
		}
		for i, s := range im.Shards(t.Name) {
			if s.Epoch > 0 {
				fmt.Fprintf(&b, "  shard %d %+v\n", i, s)
			}
		}
	}
	for _, kind := range []ConfigResourceType{TopicConfig, BrokerConfig, BrokerLoggerConfig, ClientMetricsConfig, GroupConfig} {
		for name := range im.ConfigResources(kind) {
			fmt.Fprintf(&b, "config %d %q %v\n", kind, name, im.Config(Resource{kind, name}))
		}
	}
	return b.String()
}

// world makes random records that a controller could have written.
type world struct {
	r   *rand.Rand
	im  *Image
	ids byte
}

func (w *world) someTopic() (*Topic, bool) {
	if w.im.TopicCount() == 0 {
		return nil, false
	}
	skip := w.r.IntN(w.im.TopicCount())
	for t := range w.im.Topics() {
		if skip--; skip < 0 {
			return t, true
		}
	}
	return nil, false
}

func (w *world) replicas() []int32 {
	list := []int32{1, 2, 3, 4}
	w.r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list[:w.r.IntN(len(list)+1)]
}

func (w *world) batch() []*metadatapb.Record {
	switch w.r.IntN(10) {
	case 0, 1:
		return w.createTopic()
	case 2:
		return w.deleteTopic()
	case 3, 4:
		return w.changePartitions()
	case 5:
		return w.node()
	case 6, 7:
		return w.config()
	case 8:
		return w.changeShards()
	}
	return w.cluster()
}

func (w *world) changeShards() []*metadatapb.Record {
	t, ok := w.someTopic()
	if !ok {
		return nil
	}
	var recs []*metadatapb.Record
	epochs := map[int32]int32{}
	for range min(len(t.Partitions), w.r.IntN(5)) { // one of them twice perhaps
		p := int32(w.r.IntN(len(t.Partitions)))
		s, _ := w.im.Shard(t.Name, p)
		epochs[p] = max(epochs[p], s.Epoch) + 1 + int32(w.r.IntN(2))
		recs = append(recs, shardRecord(t.ID, p, Shard{int32(w.r.IntN(4)) - 1, epochs[p]}))
	}
	return recs
}

func (w *world) createTopic() []*metadatapb.Record {
	name := string([]byte{"abc"[w.r.IntN(3)], "._-x"[w.r.IntN(4)], "abc"[w.r.IntN(3)]})
	if _, ok := w.im.Topic(name); ok {
		return nil
	}
	w.ids++
	id := TopicID{w.ids, byte(w.im.Offset())}
	recs := []*metadatapb.Record{topicRecord(name, id)}
	for i := range w.r.IntN(4) {
		recs = append(recs, partitionRecord(id, &Partition{
			ID: int32(i), Leader: int32(w.r.IntN(4)) - 1, LeaderEpoch: int32(w.r.IntN(9)), PartitionEpoch: int32(w.r.IntN(9)),
			LeaderRecoveryState: int8(w.r.IntN(2)), Replicas: w.replicas(), ISR: w.replicas(), ELR: w.replicas(),
			LastKnownELR: w.replicas(), AddingReplicas: w.replicas(), RemovingReplicas: w.replicas(), Offline: w.replicas(),
		}))
	}
	return recs
}

func (w *world) deleteTopic() []*metadatapb.Record {
	t, ok := w.someTopic()
	if !ok {
		return nil
	}
	remove := &metadatapb.Record{Record: &metadatapb.Record_RemoveTopic{RemoveTopic: &metadatapb.RemoveTopicRecord{TopicId: t.ID[:]}}}
	if w.r.IntN(2) == 0 {
		return []*metadatapb.Record{remove}
	}
	w.ids++
	again := TopicID{w.ids, byte(w.im.Offset())} // the same name lives again at once
	return []*metadatapb.Record{remove, topicRecord(t.Name, again)}
}

func (w *world) changePartitions() []*metadatapb.Record {
	t, ok := w.someTopic()
	if !ok {
		return nil
	}
	var recs []*metadatapb.Record
	for _, p := range t.Partitions {
		c := &metadatapb.PartitionChangeRecord{TopicId: t.ID[:], PartitionId: p.ID}
		if w.r.IntN(2) == 0 {
			c.Leader = proto.Int32(int32(w.r.IntN(4)) - 1)
		}
		for _, field := range []**metadatapb.Replicas{&c.Isr, &c.Replicas, &c.EligibleLeaderReplicas, &c.LastKnownElr, &c.AddingReplicas, &c.RemovingReplicas, &c.OfflineReplicas} {
			if w.r.IntN(2) == 0 {
				*field = &metadatapb.Replicas{Ids: w.replicas()}
			}
		}
		recs = append(recs, &metadatapb.Record{Record: &metadatapb.Record_PartitionChange{PartitionChange: c}})
	}
	return recs
}

func (w *world) node() []*metadatapb.Record {
	id := int32(w.r.IntN(4))
	n, ok := w.im.Node(id)
	if !ok || w.r.IntN(3) == 0 {
		n = &Node{
			ID: id, Epoch: w.im.Offset() + 1, Incarnation: [16]byte{byte(w.r.Uint32())}, Rack: []string{"", "r1"}[w.r.IntN(2)],
			Roles: []string{RoleBroker, RoleTxnCoord}[w.r.IntN(2):], Fenced: w.r.IntN(2) == 0,
			Listeners: []Listener{{"PLAINTEXT", "host", 9092, 0}, {"S", "h", 9093, 3}}[w.r.IntN(2):],
			LogDirs:   [][16]byte{{1}, {2}}[w.r.IntN(3):], Features: map[string]FeatureRange{"f": {0, 1}, "g": {7, 30}},
		}
		return []*metadatapb.Record{{Record: &metadatapb.Record_RegisterBroker{RegisterBroker: n.Record()}}}
	}
	if w.r.IntN(3) == 0 {
		return []*metadatapb.Record{{Record: &metadatapb.Record_UnregisterBroker{
			UnregisterBroker: &metadatapb.UnregisterBrokerRecord{BrokerId: id, BrokerEpoch: n.Epoch}}}}
	}
	c := &metadatapb.BrokerRegistrationChangeRecord{BrokerId: id, BrokerEpoch: n.Epoch}
	switch w.r.IntN(3) {
	case 0:
		c.Fenced = proto.Bool(w.r.IntN(2) == 0)
	case 1:
		c.InControlledShutdown = proto.Bool(w.r.IntN(2) == 0)
	case 2:
		c.LogDirs = [][]byte{slices.Repeat([]byte{9}, 16)}
	}
	return []*metadatapb.Record{{Record: &metadatapb.Record_BrokerRegistrationChange{BrokerRegistrationChange: c}}}
}

func (w *world) config() []*metadatapb.Record {
	r := Resource{[]ConfigResourceType{TopicConfig, BrokerConfig, GroupConfig}[w.r.IntN(3)], []string{"", "1", "a_b"}[w.r.IntN(3)]}
	if t, ok := w.someTopic(); ok && r.Type == TopicConfig {
		r.Name = t.Name
	}
	var recs []*metadatapb.Record
	for range w.r.IntN(4) {
		var value *string
		if w.r.IntN(3) > 0 {
			value = proto.String([]string{"", "1", "x"}[w.r.IntN(3)])
		}
		recs = append(recs, configRecord(r, string("kl"[w.r.IntN(2)]), value))
	}
	return recs
}

func (w *world) cluster() []*metadatapb.Record {
	switch w.r.IntN(5) {
	case 0:
		return []*metadatapb.Record{{Record: &metadatapb.Record_Cluster{Cluster: &metadatapb.ClusterRecord{ClusterId: "c"}}}}
	case 1:
		return []*metadatapb.Record{{Record: &metadatapb.Record_LeaderChange{
			LeaderChange: &metadatapb.LeaderChangeRecord{LeaderId: int32(w.r.IntN(3)), LeaderEpoch: w.r.Int64N(5)}}}}
	case 2:
		return []*metadatapb.Record{{Record: &metadatapb.Record_FeatureLevel{
			FeatureLevel: &metadatapb.FeatureLevelRecord{Name: "f", FeatureLevel: int32(w.r.IntN(3))}}}}
	case 3:
		return []*metadatapb.Record{{Record: &metadatapb.Record_ProducerIds{
			ProducerIds: &metadatapb.ProducerIdsRecord{BrokerId: 1, NextProducerId: w.im.NextProducerID() + 1000}}}}
	}
	return []*metadatapb.Record{{Record: &metadatapb.Record_NoOp{NoOp: &metadatapb.NoOpRecord{}}}}
}

// TestRandomLogs checks, after every batch of random logs, that the older image
// is as it was, that a snapshot and the log itself give the same image, also
// through their bytes, and that the delta is the difference of the images.
func TestRandomLogs(t *testing.T) {
	for seed := range uint64(25) {
		w := &world{r: rand.New(rand.NewPCG(seed, 0)), im: Empty()}
		var log []*metadatapb.Record
		for step := range 60 {
			recs := w.batch()
			old, before := w.im, dump(w.im)
			next, delta := mustApply(t, old, old.Offset()+1+int64(len(recs)), recs...)
			log = append(log, recs...)
			w.im = next

			where := fmt.Sprintf("seed %d step %d", seed, step)
			equal(t, where+": the older image", dump(old), before)
			snapshot := throughBytes(t, slices.Collect(next.Records()))
			fromSnapshot, _ := mustApply(t, Empty(), next.Offset(), snapshot...)
			equal(t, where+": image from the snapshot", dump(fromSnapshot), dump(next))
			checkDelta(t, where, old, next, delta)
		}
		replayed, _ := mustApply(t, Empty(), w.im.Offset(), throughBytes(t, log)...)
		equal(t, fmt.Sprintf("seed %d: image from the log at once", seed), dump(replayed), dump(w.im))
	}
}

// checkDelta compares a delta with the difference of the images. It may also
// hold nodes and configs that the batch set to what they were: brokers read a
// key store anew when its path is set again.
func checkDelta(t *testing.T, where string, old, next *Image, d *Delta) {
	t.Helper()
	diff := Diff(old, next)
	if d.Offset != diff.Offset || !slices.Equal(d.ChangedTopics, diff.ChangedTopics) || !slices.Equal(d.DeletedTopics, diff.DeletedTopics) ||
		!slices.Equal(d.RemovedNodes, diff.RemovedNodes) || !includes(d.ChangedNodes, diff.ChangedNodes) ||
		!slices.Equal(d.ChangedShards, diff.ChangedShards) ||
		!includes(d.ChangedConfigs, diff.ChangedConfigs) || diff.FeaturesChanged && !d.FeaturesChanged || diff.ControllerChanged && !d.ControllerChanged {
		t.Fatalf("%s: delta %+v, but the images differ by %+v", where, d, diff)
	}
}

func includes[T comparable](all, some []T) bool {
	return !slices.ContainsFunc(some, func(v T) bool { return !slices.Contains(all, v) })
}

func throughBytes(t *testing.T, recs []*metadatapb.Record) []*metadatapb.Record {
	t.Helper()
	var bytes []byte
	var err error
	for chunk := range slices.Chunk(recs, 3) {
		if bytes, err = AppendBatch(bytes, chunk); err != nil {
			t.Fatal(err)
		}
	}
	var out, part []*metadatapb.Record
	for len(bytes) > 0 {
		if part, bytes, err = NextBatch(bytes); err != nil {
			t.Fatal(err)
		}
		out = append(out, part...)
	}
	return out
}

func equal(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Fatalf("%s is\n%s\nnot\n%s", what, got, want)
	}
}
