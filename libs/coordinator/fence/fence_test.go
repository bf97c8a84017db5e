package fence

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestTokenTravelsInAProduceRequest(t *testing.T) {
	want := Token{Epoch: 7, LeaderEpoch: 3, Sequence: 1 << 40}
	p := kmsg.NewProduceRequestTopicPartition()
	want.Put(&p.UnknownTags)
	topic := kmsg.NewProduceRequestTopic()
	topic.Partitions = append(topic.Partitions, p)
	for version := int16(9); version <= 13; version++ {
		sent := kmsg.NewPtrProduceRequest()
		sent.SetVersion(version)
		sent.Topics = append(sent.Topics, topic)
		got := kmsg.NewPtrProduceRequest()
		got.SetVersion(version)
		if err := got.ReadFrom(sent.AppendTo(nil)); err != nil {
			t.Fatal(err)
		}
		if token, ok, err := Get(&got.Topics[0].Partitions[0].UnknownTags); token != want || !ok || err != nil {
			t.Errorf("version %d: got %+v, %v, %v", version, token, ok, err)
		}
	}
}

func TestGetWithoutAToken(t *testing.T) {
	var tags kmsg.Tags
	if _, ok, err := Get(&tags); ok || err != nil {
		t.Errorf("no tags: %v, %v", ok, err)
	}
	tags.Set(tag+1, make([]byte, size))
	if _, ok, err := Get(&tags); ok || err != nil {
		t.Errorf("another tag: %v, %v", ok, err)
	}
	tags.Set(tag, make([]byte, size-1))
	if _, ok, err := Get(&tags); ok || !errors.Is(err, kerr.InvalidRequest) {
		t.Errorf("a token cut short: %v, %v", ok, err)
	}
}
