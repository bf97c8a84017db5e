package wire

import (
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/metadata"
)

// Leaders are what a response says of leaders that a client has to look for elsewhere (KIP-951). The zero value is empty.
type Leaders struct{ nodes []int32 }

// Reset forgets all leaders.
func (l *Leaders) Reset() { l.nodes = l.nodes[:0] }

// Misdirected says whether err is one with which a client learns of the leader.
func Misdirected(err error) bool {
	return err != nil && (errors.Is(err, kerr.NotLeaderForPartition) || errors.Is(err, kerr.FencedLeaderEpoch))
}

// AppendCurrent appends the tagged field CurrentLeader of a partition and notes the leader for AppendEndpoints.
func (l *Leaders) AppendCurrent(dst []byte, tag byte, leader, epoch int32) []byte {
	dst = append(dst, tag, 9)
	dst = kbin.AppendInt32(dst, leader)
	dst = kbin.AppendInt32(dst, epoch)
	if leader >= 0 && !slices.Contains(l.nodes, leader) {
		l.nodes = append(l.nodes, leader)
	}
	return append(dst, 0)
}

// AppendEndpoints appends the tagged fields of a response: NodeEndpoints as tag 0, with where the leaders are reached that the
// image has, or nothing.
func (l *Leaders) AppendEndpoints(dst []byte, im *metadata.Image, listener string) []byte {
	var list []byte
	n := 0
	for _, id := range l.nodes {
		node, ok := im.Node(id)
		if !ok {
			continue
		}
		at, ok := node.Listener(listener)
		if !ok {
			continue
		}
		n++
		list = kbin.AppendInt32(list, id)
		list = kbin.AppendCompactString(list, at.Host)
		list = kbin.AppendInt32(list, int32(at.Port))
		var rack *string
		if node.Rack != "" {
			rack = &node.Rack
		}
		list = kbin.AppendCompactNullableString(list, rack)
		list = append(list, 0)
	}
	if n == 0 {
		return append(dst, 0)
	}
	count := kbin.AppendUvarint(nil, uint32(n)+1)
	dst = append(dst, 1, 0)
	dst = kbin.AppendUvarint(dst, uint32(len(count)+len(list)))
	return append(append(dst, count...), list...)
}
