package anywhere

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/metadata"
)

// Metadata (key 3), versions 0 to 13.
//
//	0      an empty list asks for all topics
//	1      null asks for all, empty for none; controller id, racks, internal topics
//	4      the client says whether topics may be created
//	5      offline replicas (KIP-112)
//	6      LISTENER_NOT_FOUND
//	7      leader epochs (KIP-320)
//	8–10   authorised operations of topics and, until 10, of the cluster (KIP-430, KIP-700)
//	10     topic ids in responses; from 12 in requests (KIP-516)
//	13     a top-level error code (KIP-1102)
//
// Apache Kafka answers UNKNOWN_TOPIC_OR_PARTITION while it creates a topic that a request names; here the answer waits
// for the topic, so that the client that asked finds it.
func (h *handlers) metadata(r *server.Request, q *kmsg.MetadataRequest) kmsg.Response {
	if !validTopics(q) {
		return refusedMetadata(q)
	}
	wanted := wantedTopics(q)
	failed := h.createMissing(r, q, wanted)
	v := newView(h.node.Image(), h.node.ID(), r.Conn.Listener())

	resp := kmsg.NewPtrMetadataResponse()
	resp.Brokers = v.brokers()
	resp.ClusterID = textOrNull(v.im.ClusterID())
	resp.ControllerID = v.controller()
	if q.IncludeClusterAuthorizedOperations {
		resp.AuthorizedOperations = clusterOperations
	}
	if wanted == nil {
		resp.Topics = make([]kmsg.MetadataResponseTopic, 0, v.im.TopicCount())
		for t := range v.im.Topics() {
			resp.Topics = append(resp.Topics, v.topic(t, q))
		}
		return resp
	}
	for _, w := range wanted {
		resp.Topics = append(resp.Topics, v.wantedTopic(w, q, failed))
	}
	return resp
}

// wanted is a topic that a request names, by id if that is not zero.
type wanted struct {
	id   metadata.TopicID
	name string
}

// validTopics says whether each topic is named as the version allows.
func validTopics(q *kmsg.MetadataRequest) bool {
	for _, t := range q.Topics {
		byID := t.TopicID != metadata.TopicID{}
		if byID && q.Version < 12 || t.Topic == nil && !byID {
			return false
		}
	}
	return true
}

// refusedMetadata is the answer to a request that names topics as its version does not allow.
func refusedMetadata(q *kmsg.MetadataRequest) kmsg.Response {
	resp := kmsg.NewPtrMetadataResponse()
	for _, t := range q.Topics {
		out := kmsg.NewMetadataResponseTopic()
		out.ErrorCode, out.TopicID, out.Topic = kerr.InvalidRequest.Code, t.TopicID, t.Topic
		if out.Topic == nil {
			out.Topic = text("")
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

// wantedTopics are the topics that a request names, each once; nil means all. As in Kafka, a request that names one by
// id is about those that it names by id only.
func wantedTopics(q *kmsg.MetadataRequest) []wanted {
	if q.Topics == nil || q.Version == 0 && len(q.Topics) == 0 {
		return nil
	}
	byID, byName := []wanted{}, []wanted{}
	seen := make(map[wanted]bool, len(q.Topics))
	for _, t := range q.Topics {
		w := wanted{id: t.TopicID}
		if w.id == (metadata.TopicID{}) {
			w.name = *t.Topic
		}
		switch {
		case seen[w]:
		case w.name == "" && w.id != metadata.TopicID{}:
			byID = append(byID, w)
		default:
			byName = append(byName, w)
		}
		seen[w] = true
	}
	if len(byID) > 0 {
		return byID
	}
	return byName
}

const (
	// maxCreatedTopics bounds how many topics one Metadata request creates. The others are answered as not there yet,
	// and are created when the client asks again.
	maxCreatedTopics = 500
	// createPatience is how long an answer waits for topics to be created.
	createPatience = 5 * time.Second
)

// createMissing creates the topics that do not exist, if the client and auto.create.topics.enable allow it, and gives
// the error codes of those that could not be created.
func (h *handlers) createMissing(r *server.Request, q *kmsg.MetadataRequest, topics []wanted) map[string]int16 {
	if q.Version >= 4 && !q.AllowAutoTopicCreation || !h.node.Static().Bool("auto.create.topics.enable") {
		return nil
	}
	im := h.node.Image()
	create := kmsg.NewPtrCreateTopicsRequest()
	failed := make(map[string]int16)
	for _, w := range topics {
		if _, exists := im.Topic(w.name); exists || metadata.InternalTopic(w.name) || topicNameFault(w.name) != "" {
			continue
		}
		failed[w.name] = kerr.LeaderNotAvailable.Code // until known better
		if len(create.Topics) < maxCreatedTopics {
			t := kmsg.NewCreateTopicsRequestTopic()
			t.Topic = w.name
			create.Topics = append(create.Topics, t)
		}
	}
	if len(create.Topics) == 0 {
		return nil
	}
	values := h.layers(im).Values()
	for i := range create.Topics {
		create.Topics[i].NumPartitions = int32(values.Int("num.partitions"))
		create.Topics[i].ReplicationFactor = int16(values.Int("default.replication.factor"))
	}
	create.TimeoutMillis = int32(createPatience.Milliseconds())
	h.create(r, create, failed)
	return failed
}

// create has topics created and takes those that exist then off failed.
func (h *handlers) create(r *server.Request, create *kmsg.CreateTopicsRequest, failed map[string]int16) {
	ctx, cancel := context.WithTimeout(r.Context(), createPatience)
	defer cancel()
	create.SetVersion(create.MaxVersion())
	body, err := h.node.Forward(ctx, create.Key(), create.Version, create.AppendTo(nil),
		r.Conn.Principal().String(), r.ClientID, r.Conn.RemoteHost())
	if err != nil {
		return
	}
	resp := create.ResponseKind().(*kmsg.CreateTopicsResponse)
	if resp.ReadFrom(body) != nil {
		return
	}
	for _, t := range resp.Topics {
		switch err := kerr.ErrorForCode(t.ErrorCode); {
		case err == nil, err == kerr.TopicAlreadyExists:
			delete(failed, t.Topic)
		case !kerr.IsRetriable(err):
			failed[t.Topic] = t.ErrorCode
		}
	}
}

// brokers are the nodes that clients can reach.
func (v view) brokers() []kmsg.MetadataResponseBroker {
	var list []kmsg.MetadataResponseBroker
	for n := range v.im.Nodes() {
		if !v.online[n.ID] {
			continue
		}
		l, _ := n.Listener(v.listener)
		b := kmsg.NewMetadataResponseBroker()
		b.NodeID, b.Host, b.Port, b.Rack = n.ID, l.Host, int32(l.Port), textOrNull(n.Rack)
		list = append(list, b)
	}
	return list
}

// wantedTopic describes a topic that a request names, or says why not.
func (v view) wantedTopic(w wanted, q *kmsg.MetadataRequest, failed map[string]int16) kmsg.MetadataResponseTopic {
	if w.id != (metadata.TopicID{}) {
		if t, ok := v.im.TopicByID(w.id); ok {
			return v.topic(t, q)
		}
		out := kmsg.NewMetadataResponseTopic()
		out.ErrorCode, out.TopicID = kerr.UnknownTopicID.Code, w.id
		return out
	}
	if t, ok := v.im.Topic(w.name); ok {
		return v.topic(t, q)
	}
	out := kmsg.NewMetadataResponseTopic()
	out.Topic, out.IsInternal = &w.name, metadata.InternalTopic(w.name)
	out.ErrorCode = kerr.UnknownTopicOrPartition.Code
	if topicNameFault(w.name) != "" {
		out.ErrorCode = kerr.InvalidTopicException.Code
	} else if code, ok := failed[w.name]; ok {
		out.ErrorCode = code
	}
	return out
}

// topic describes a topic.
func (v view) topic(t *metadata.Topic, q *kmsg.MetadataRequest) kmsg.MetadataResponseTopic {
	out := kmsg.NewMetadataResponseTopic()
	out.Topic, out.TopicID, out.IsInternal = &t.Name, t.ID, metadata.InternalTopic(t.Name)
	if q.IncludeTopicAuthorizedOperations {
		out.AuthorizedOperations = topicOperations
	}
	out.Partitions = make([]kmsg.MetadataResponseTopicPartition, len(t.Partitions))
	for i, p := range t.Partitions {
		out.Partitions[i] = v.partition(p, q.Version)
	}
	return out
}

// partition describes a partition. Version 0 leaves replicas out that clients cannot reach.
func (v view) partition(p *metadata.Partition, version int16) kmsg.MetadataResponseTopicPartition {
	out := kmsg.NewMetadataResponseTopicPartition()
	out.Partition, out.LeaderEpoch, out.Replicas, out.ISR = p.ID, p.LeaderEpoch, p.Replicas, p.ISR
	out.OfflineReplicas = v.offline(p)
	leader, err := v.leader(p)
	out.Leader = leader
	if err == kerr.ListenerNotFound && version < 6 {
		err = kerr.LeaderNotAvailable
	}
	if version == 0 {
		out.Replicas, out.ISR = v.reachable(p.Replicas), v.reachable(p.ISR)
		if err == nil && (len(out.Replicas) < len(p.Replicas) || len(out.ISR) < len(p.ISR)) {
			err = kerr.ReplicaNotAvailable
		}
	}
	if err != nil {
		out.ErrorCode = err.Code
	}
	return out
}
