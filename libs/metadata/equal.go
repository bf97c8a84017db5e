package metadata

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

func sameTopic(a, b *Topic) bool {
	return a == b || slices.EqualFunc(a.Partitions, b.Partitions, samePartition)
}

func samePartition(a, b *Partition) bool {
	// Every change of a partition grows its epoch.
	return a == b || a.PartitionEpoch == b.PartitionEpoch
}

func sameNode(a, b *Node) bool {
	return a == b || a.Epoch == b.Epoch && a.Fenced == b.Fenced &&
		a.InControlledShutdown == b.InControlledShutdown && slices.Equal(a.LogDirs, b.LogDirs)
}

func sortedTopics(m map[TopicID]*Topic) []*Topic {
	if len(m) == 0 {
		return nil
	}
	return slices.SortedFunc(maps.Values(m), func(a, b *Topic) int { return cmp.Compare(a.Name, b.Name) })
}

func sortedNodes(m map[int32]*Node) []*Node {
	if len(m) == 0 {
		return nil
	}
	return slices.SortedFunc(maps.Values(m), func(a, b *Node) int { return cmp.Compare(a.ID, b.ID) })
}

func uuidFromBytes(b []byte) ([16]byte, error) {
	if len(b) != 16 {
		return [16]byte{}, fmt.Errorf("uuid of %d bytes instead of 16", len(b))
	}
	return [16]byte(b), nil
}

func uuidsFromBytes(list [][]byte) ([][16]byte, error) {
	var out [][16]byte
	for _, b := range list {
		id, err := uuidFromBytes(b)
		if err != nil {
			return nil, err
		}
		out = append(out, id)
	}
	return out, nil
}
