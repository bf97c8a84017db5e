package anywhere

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/metadata"
)

// What a client may do when nothing restricts it, as bits of AclOperation (KIP-430).
const (
	topicOperations   int32 = 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<10 | 1<<11 // read, write, create, delete, alter, describe, describe and alter configs
	clusterOperations int32 = 1<<5 | 1<<7 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12       // create, alter, describe, cluster action, describe and alter configs, idempotent write
)

// view is an image as the clients of one listener see it.
type view struct {
	im       *metadata.Image
	self     int32
	listener string
	online   map[int32]bool // nodes that are not fenced and have the listener
}

func newView(im *metadata.Image, self int32, listener string) view {
	v := view{im: im, self: self, listener: listener, online: make(map[int32]bool)}
	for n := range im.Nodes() {
		if _, ok := n.Listener(listener); ok && !n.Fenced {
			v.online[n.ID] = true
		}
	}
	return v
}

// controller is the node that clients are to send admin requests to. Every node forwards them, so it is this one, unless
// clients do not see it.
func (v view) controller() int32 {
	if v.online[v.self] {
		return v.self
	}
	for n := range v.im.Nodes() {
		if v.online[n.ID] {
			return n.ID
		}
	}
	return -1
}

// leader is the leader of a partition as clients can reach it, else -1 and why.
func (v view) leader(p *metadata.Partition) (int32, *kerr.Error) {
	if !p.HasLeader() {
		return -1, kerr.LeaderNotAvailable
	}
	n, ok := v.im.Node(p.Leader)
	if !ok {
		return -1, kerr.LeaderNotAvailable
	}
	if _, ok := n.Listener(v.listener); !ok {
		return -1, kerr.ListenerNotFound
	}
	return p.Leader, nil
}

// offline are the replicas that clients cannot reach, or that lie in a log directory that has failed (KIP-112).
func (v view) offline(p *metadata.Partition) []int32 {
	var list []int32
	for _, id := range p.Replicas {
		if !v.online[id] || p.IsOffline(id) {
			list = append(list, id)
		}
	}
	return list
}

// reachable is list without the nodes that have no such listener.
func (v view) reachable(list []int32) []int32 {
	return slices.DeleteFunc(slices.Clone(list), func(id int32) bool {
		n, ok := v.im.Node(id)
		if ok {
			_, ok = n.Listener(v.listener)
		}
		return !ok
	})
}

// maxTopicNameBytes is Kafka's limit on the name of a topic.
const maxTopicNameBytes = 249

// topicNameFault says why no topic can have the name; empty when one can.
func topicNameFault(name string) string {
	switch {
	case name == "":
		return "the empty string is not allowed"
	case name == "." || name == "..":
		return "'" + name + "' is not allowed"
	case len(name) > maxTopicNameBytes:
		return "the length of '" + name + "' is longer than the max allowed length 249"
	case strings.ContainsFunc(name, notInTopicName):
		return "'" + name + "' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
	}
	return ""
}

func notInTopicName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '.' && r != '_' && r != '-'
}

// text is s for a nullable field.
func text(s string) *string { return &s }

// textOrNull is s for a nullable field, null when empty.
func textOrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
