package controlpb

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
)

func imageOf(t testing.TB, topics int) *metadata.Image {
	t.Helper()
	var recs []*metadatapb.Record
	for i := range topics {
		id := make([]byte, 16)
		binary.BigEndian.PutUint64(id, uint64(i))
		recs = append(recs,
			&metadatapb.Record{Record: &metadatapb.Record_Topic{Topic: &metadatapb.TopicRecord{Name: fmt.Sprint("t", i), TopicId: id}}},
			&metadatapb.Record{Record: &metadatapb.Record_Partition{Partition: &metadatapb.PartitionRecord{TopicId: id, Replicas: []int32{1, 2}, Isr: []int32{1}, Leader: 1}}},
			&metadatapb.Record{Record: &metadatapb.Record_Config{Config: &metadatapb.ConfigRecord{ResourceType: 2, ResourceName: fmt.Sprint("t", i), Name: "retention.ms", Value: proto.String("1")}}})
	}
	im, _, err := metadata.Empty().Apply(41, recs)
	if err != nil {
		t.Fatal(err)
	}
	return im
}

func TestSnapshotIsTheImage(t *testing.T) {
	for _, im := range []*metadata.Image{metadata.Empty(), imageOf(t, 0), imageOf(t, 1), imageOf(t, 2500)} {
		b, err := EncodeSnapshot(im)
		if err != nil {
			t.Fatal(err)
		}
		again, err := DecodeSnapshot(b)
		if err != nil {
			t.Fatal(err)
		}
		twice, err := EncodeSnapshot(again) // equal images have equal records
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b, twice) {
			t.Errorf("image at %d with %d topics came back at %d with %d", im.Offset(), im.TopicCount(), again.Offset(), again.TopicCount())
		}
	}
	if im, err := DecodeSnapshot(nil); err != nil || im.Offset() != -1 {
		t.Errorf("no bytes: %v", err)
	}
}

func FuzzDecodeSnapshot(f *testing.F) {
	whole, err := EncodeSnapshot(imageOf(f, 2))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) {
		im, err := DecodeSnapshot(b)
		if err == nil && im == nil {
			t.Error("neither an image nor an error")
		}
	})
}
