package shard

import (
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// encoded is a response as a client of a version reads it.
func encoded(t *testing.T, resp kmsg.Response, version int16) kmsg.Response {
	t.Helper()
	resp.SetVersion(version)
	read := reflect.New(reflect.TypeOf(resp).Elem()).Interface().(kmsg.Response)
	read.SetVersion(version)
	if err := read.ReadFrom(resp.AppendTo(nil)); err != nil {
		t.Fatal(err)
	}
	return read
}

// TestAllOffsetsOrNone tells a request without topics, which asks for all offsets, from one with an empty list of them.
func TestAllOffsetsOrNone(t *testing.T) {
	h := newHarness(t, nil)
	h.createTopic("a", 1)
	h.image()
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Version, commit.Group, commit.Generation = 9, "g", -1
	commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "a", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: 7}}}}
	h.response("c", commit)
	for version := int16(1); version <= 10; version++ {
		for _, all := range []bool{true, false} {
			if all && version < 2 {
				continue
			}
			req := kmsg.NewPtrOffsetFetchRequest()
			req.Version, req.Group = version, "g"
			req.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "g", MemberEpoch: -1}}
			if !all {
				req.Topics, req.Groups[0].Topics = []kmsg.OffsetFetchRequestTopic{}, []kmsg.OffsetFetchRequestGroupTopic{}
			}
			read := kmsg.NewPtrOffsetFetchRequest()
			read.Version = version
			if err := read.ReadFrom(req.AppendTo(nil)); err != nil {
				t.Fatal(err)
			}
			resp := encoded(t, h.response("c", read).(kmsg.Response), version).(*kmsg.OffsetFetchResponse)
			topics := len(resp.Topics)
			for _, g := range resp.Groups {
				topics += len(g.Topics)
			}
			if want := map[bool]int{true: 1, false: 0}[all]; topics != want {
				t.Errorf("version %d, all %v: %d topics", version, all, topics)
			}
		}
	}
}
