package server

import (
	"encoding/binary"
	"errors"
	"runtime"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// worstBodies are bodies of n bytes that make decoders allocate as much as they can: every array count as
// large as the rest of the body admits, and tags.
func worstBodies(n int) [][]byte {
	zero := make([]byte, n)
	var list [][]byte
	for _, lead := range [][]byte{
		{}, {0, 0}, {0xff, 0xff}, {0}, {1}, {1, 1}, {0, 0, 0, 0, 0, 0}, {0xff, 0xff, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 0, 0},
	} {
		for _, share := range []int{1, 2, 3, 4, 6, 8, 18} {
			b := append([]byte(nil), zero...)
			binary.BigEndian.PutUint32(b[copy(b, lead):], uint32(n/share-40))
			list = append(list, b)
			b = append([]byte(nil), zero...)
			copy(b, lead)
			binary.PutUvarint(b[len(lead):], uint64(n/share-40))
			list = append(list, b)
		}
	}
	for _, fill := range []byte{1, 2, 3, 0x7f} {
		b := make([]byte, n)
		for i := range b {
			b[i] = fill
		}
		list = append(list, b)
	}
	return list
}

func allocatedBytes(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// What a request allocates when decoded is proportional to its size: no small request can claim much.
func TestDecodeAllocatesInProportion(t *testing.T) {
	const size, worstFactor = 4 << 10, 80 // half as much without the race detector
	for key := range int16(94) {
		m := kmsg.RequestForKey(key)
		if m == nil {
			continue
		}
		for version := range m.MaxVersion() + 1 {
			for _, body := range worstBodies(size) {
				m := kmsg.RequestForKey(key)
				m.SetVersion(version)
				if got := allocatedBytes(func() { decode(m, body) }); got > worstFactor*size {
					t.Errorf("%s v%d: a body of %d bytes allocated %d (%x…)", kmsg.NameForKey(key), version, size, got, body[:16])
					break
				}
			}
		}
	}
}

// A large Produce request cannot claim more topics than it has room for data.
func TestProduceTopicCount(t *testing.T) {
	for version := int16(3); version <= 13; version++ {
		full := kmsg.NewPtrProduceRequest()
		full.TransactionID = kmsg.StringPtr("transaction")
		for range 900 {
			topic, partition := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
			topic.Topic = "t"
			partition.Records = make([]byte, 80)
			topic.Partitions = append(topic.Partitions, partition)
			full.Topics = append(full.Topics, topic)
		}
		full.SetVersion(version)
		body := full.AppendTo(nil)
		again := kmsg.NewPtrProduceRequest()
		again.SetVersion(version)
		if err := decode(again, body); err != nil || len(again.Topics) != 900 {
			t.Errorf("v%d: %d topics, %v", version, len(again.Topics), err)
		}
		for i := range full.Topics {
			full.Topics[i].Partitions = nil
		}
		full.Topics = append(full.Topics, make([]kmsg.ProduceRequestTopic, 200_000)...)
		if err := decode(again, full.AppendTo(nil)); !errors.Is(err, errTooManyTopics) {
			t.Errorf("v%d: topics without data: %v", version, err)
		}
	}
}
