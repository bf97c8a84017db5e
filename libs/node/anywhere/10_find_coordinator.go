package anywhere

import (
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/metadata"
)

// The kinds of coordinators.
const (
	groupCoordinator       = 0
	transactionCoordinator = 1
	shareCoordinator       = 2
)

// FindCoordinator (key 10), versions 0 to 6.
//
//	0   groups
//	1   transactions too, and a message
//	4   several keys at once (KIP-699)
//	6   share groups, by "group:topic id:partition" (KIP-932)
//
// The coordinator of a group or transactional id is the node that owns the shard of its partition, as this node's image
// has it. The topic of the shards is created when it is missing. Share groups have no coordinators yet.
func (h *handlers) findCoordinator(r *server.Request, q *kmsg.FindCoordinatorRequest) kmsg.Response {
	resp := kmsg.NewPtrFindCoordinatorResponse()
	if q.Version < 4 {
		h.createShards(r, q.CoordinatorType)
		c := h.coordinator(r, q, q.CoordinatorKey)
		resp.ErrorCode, resp.ErrorMessage, resp.NodeID, resp.Host, resp.Port = c.ErrorCode, c.ErrorMessage, c.NodeID, c.Host, c.Port
		return resp
	}
	if len(q.CoordinatorKeys) > 0 {
		h.createShards(r, q.CoordinatorType)
	}
	for _, key := range q.CoordinatorKeys {
		resp.Coordinators = append(resp.Coordinators, h.coordinator(r, q, key))
	}
	return resp
}

// shardTopics are the topics of the coordinators' shards.
var shardTopics = map[int8]string{
	groupCoordinator:       metadata.ConsumerOffsetsTopic,
	transactionCoordinator: metadata.TransactionStateTopic,
}

// createShards creates the topic of a kind of coordinators if need be.
func (h *handlers) createShards(r *server.Request, kind int8) {
	topic, ok := shardTopics[kind]
	if !ok {
		return
	}
	if _, exists := h.node.Image().Topic(topic); !exists {
		h.coordinatorTopics.create(r.Context(), topic)
	}
}

// coordinator is the answer to one key.
func (h *handlers) coordinator(r *server.Request, q *kmsg.FindCoordinatorRequest, key string) kmsg.FindCoordinatorResponseCoordinator {
	c := kmsg.NewFindCoordinatorResponseCoordinator()
	c.Key = key
	id, l, err := h.ownerOf(r.Conn.Listener(), q, key)
	if err != nil {
		c.ErrorCode, c.ErrorMessage, c.NodeID, c.Port = err.Code, text(err.Description), -1, -1
		return c
	}
	c.NodeID, c.Host, c.Port = id, l.Host, int32(l.Port)
	return c
}

// ownerOf is the node that coordinates what a key names, and its address on the listener that the client uses.
func (h *handlers) ownerOf(listener string, q *kmsg.FindCoordinatorRequest, key string) (int32, metadata.Listener, *kerr.Error) {
	none := metadata.Listener{}
	topic, ok := shardTopics[q.CoordinatorType]
	if !ok && (q.CoordinatorType != shareCoordinator || q.Version < 6 || !validShareKey(key)) {
		return -1, none, kerr.InvalidRequest
	}
	im := h.node.Image()
	t, ok := im.Topic(topic)
	if !ok {
		return -1, none, kerr.CoordinatorNotAvailable
	}
	shard, _ := im.Shard(topic, t.ShardOf(key))
	n, ok := im.Node(shard.Owner)
	if !ok || !n.Active() {
		return -1, none, kerr.CoordinatorNotAvailable
	}
	l, ok := n.Listener(listener)
	if !ok {
		return -1, none, kerr.CoordinatorNotAvailable
	}
	return n.ID, l, nil
}

// validShareKey says whether a key has the form "group:topic id:partition".
func validShareKey(key string) bool {
	parts := strings.Split(key, ":")
	if len(parts) != 3 || parts[0] == "" {
		return false
	}
	_, err := metadata.ParseTopicID(parts[1])
	if err == nil {
		_, err = strconv.ParseUint(parts[2], 10, 31)
	}
	return err == nil
}
