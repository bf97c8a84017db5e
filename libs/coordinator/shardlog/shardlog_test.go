package shardlog

import (
	"errors"
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
	"github.com/cauce-stream/cauce/libs/testport"
)

func image(t *testing.T, recs ...*metadatapb.Record) *metadata.Image {
	t.Helper()
	im, _, err := metadata.Empty().Apply(0, recs)
	if err != nil {
		t.Fatal(err)
	}
	return im
}

func TestFindingTheLeader(t *testing.T) {
	id := metadata.TopicID{1}
	node := metadata.Node{ID: 4, Incarnation: [16]byte{1}, Listeners: []metadata.Listener{
		{Name: "CLIENTS", Host: "example.invalid", Port: 1, SecurityProtocol: 1},
		{Name: "NODES", Host: "127.0.0.1", Port: uint16(testport.Range(t, 1))},
		{Name: "OTHERS", Host: "example.invalid", Port: 2},
	}}
	partition := func(p metadata.Partition) *metadatapb.Record {
		return &metadatapb.Record{Record: &metadatapb.Record_Partition{Partition: p.Record(id)}}
	}
	im := image(t,
		&metadatapb.Record{Record: &metadatapb.Record_RegisterBroker{RegisterBroker: node.Record()}},
		&metadatapb.Record{Record: &metadatapb.Record_Topic{Topic: &metadatapb.TopicRecord{Name: "shards", TopicId: id[:]}}},
		partition(metadata.Partition{ID: 0, Leader: 4, LeaderEpoch: 6}),
		partition(metadata.Partition{ID: 1, Leader: metadata.NoLeader}),
		partition(metadata.Partition{ID: 2, Leader: 5}),
	)
	for _, c := range []struct {
		topic, listener string
		shard           int32
		want            *kerr.Error // nil: the leader is found, and refuses the connection
	}{
		{"shards", "", 0, nil},
		{"shards", "NODES", 0, nil},
		{"shards", "NOWHERE", 0, kerr.ListenerNotFound},
		{"shards", "", 1, kerr.LeaderNotAvailable},
		{"shards", "", 2, kerr.LeaderNotAvailable},
		{"shards", "", 3, kerr.UnknownTopicOrPartition},
		{"shards", "", -1, kerr.UnknownTopicOrPartition},
		{"others", "", 0, kerr.UnknownTopicOrPartition},
	} {
		l := New(Config{Topic: c.topic, Listener: c.listener}, func() *metadata.Image { return im })
		_, appended := l.Append(t.Context(), c.shard, 1, 1, nil)
		_, started := l.Start(t.Context(), c.shard)
		_, read := l.Read(t.Context(), c.shard, 0, 1)
		for _, err := range []error{appended, started, read} {
			var got *kerr.Error
			errors.As(err, &got)
			var refused *net.OpError
			if got != c.want || c.want == nil && !errors.As(err, &refused) {
				t.Errorf("%+v: %v", c, err)
			}
		}
		l.Close()
	}
}
