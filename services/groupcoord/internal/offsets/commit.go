package offsets

import (
	"math"
	"unicode/utf16"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/schema"
)

const (
	// firstRetention to lastRetention are the versions of OffsetCommit whose clients may say how long offsets are kept.
	firstRetention, lastRetention = 2, 4
	// commitsByID is the first version of OffsetCommit that names topics by their ids.
	commitsByID = 10
	// txnCommitsByID is the first version of TxnOffsetCommit that does.
	txnCommitsByID = 6
	// fixedBytes is at least what the record of an offset takes apart from names and text.
	fixedBytes = 80
)

// Committer is who commits offsets.
type Committer struct {
	MemberID   string
	InstanceID *string
	// Epoch is a generation of the classic protocol or a member's epoch; negative where the offsets are not a member's.
	Epoch int32
	// Version is that of the request.
	Version       int16
	Transactional bool
}

// Admission says whether the committer may commit for a partition; nil where it may for all. A member's right to a partition may be
// younger than the epoch that it commits at.
type Admission func(topic metadata.TopicID, partition int32) error

// commit is the commit of offsets for one topic.
type commit struct {
	group string
	admit Admission
	topic *metadata.Topic
	// expireMs is when the offsets expire, in milliseconds since 1970; -1 where the group's rules decide.
	expireMs int64
}

// Commit stores the offsets of a request whose sender the group has admitted.
func (s *Store) Commit(o *op.Op, req *kmsg.OffsetCommitRequest, admit Admission) *kmsg.OffsetCommitResponse {
	resp := kmsg.NewPtrOffsetCommitResponse()
	c := commit{group: req.Group, admit: admit, expireMs: expireMs(o, req)}
	for i := range req.Topics {
		t := &req.Topics[i]
		out := kmsg.NewOffsetCommitResponseTopic()
		out.Topic, out.TopicID = t.Topic, t.TopicID
		var unknown error
		c.topic, unknown = find(o, t.Topic, t.TopicID, req.Version >= commitsByID)
		for j := range t.Partitions {
			p := &t.Partitions[j]
			r := kmsg.NewOffsetCommitResponseTopicPartition()
			r.Partition = p.Partition
			r.ErrorCode = code(c.write(o, unknown, p.Partition, p.Offset, p.LeaderEpoch, p.Metadata))
			out.Partitions = append(out.Partitions, r)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

// CommitInTransaction stores offsets that count when the transaction is committed that the operation is part of.
func (s *Store) CommitInTransaction(o *op.Op, req *kmsg.TxnOffsetCommitRequest, admit Admission) *kmsg.TxnOffsetCommitResponse {
	resp := kmsg.NewPtrTxnOffsetCommitResponse()
	c := commit{group: req.Group, admit: admit, expireMs: -1}
	for i := range req.Topics {
		t := &req.Topics[i]
		out := kmsg.NewTxnOffsetCommitResponseTopic()
		out.Topic, out.TopicID = t.Topic, t.TopicID
		var unknown error
		c.topic, unknown = find(o, t.Topic, t.TopicID, req.Version >= txnCommitsByID)
		for j := range t.Partitions {
			p := &t.Partitions[j]
			r := kmsg.NewTxnOffsetCommitResponseTopicPartition()
			r.Partition = p.Partition
			r.ErrorCode = code(c.write(o, unknown, p.Partition, p.Offset, p.LeaderEpoch, p.Metadata))
			out.Partitions = append(out.Partitions, r)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return resp
}

// find is the topic that a request means.
func find(o *op.Op, name string, id metadata.TopicID, byID bool) (*metadata.Topic, error) {
	if byID {
		if t, ok := o.Image.TopicByID(id); ok {
			return t, nil
		}
		return nil, kerr.UnknownTopicID
	}
	if t, ok := o.Image.Topic(name); ok {
		return t, nil
	}
	return nil, kerr.UnknownTopicOrPartition
}

// write stores one offset, unless its topic is unknown or its text too large.
func (c *commit) write(o *op.Op, unknown error, index int32, offset int64, leaderEpoch int32, text *string) error {
	if unknown != nil {
		return unknown
	}
	if c.admit != nil {
		if err := c.admit(c.topic.ID, index); err != nil {
			return err
		}
	}
	v := &schema.OffsetValue{Offset: offset, LeaderEpoch: leaderEpoch, CommitTimestampMs: o.Now.UnixMilli(), ExpireTimestampMs: c.expireMs, TopicID: c.topic.ID}
	if text != nil {
		v.Metadata = *text
	}
	if tooLarge(v.Metadata, o.Settings.Broker.Int("offset.metadata.max.bytes")) {
		return kerr.OffsetMetadataTooLarge
	}
	if !o.Room(len(c.group) + len(c.topic.Name) + len(v.Metadata) + fixedBytes) {
		return kerr.InvalidCommitOffsetSize
	}
	if v.ExpireTimestampMs >= 0 { // the version of records with an expiry has neither
		v.LeaderEpoch, v.TopicID = -1, metadata.TopicID{}
	}
	o.Emit(&schema.OffsetCommit{Group: c.group, Topic: c.topic.Name, Partition: index, Value: v})
	return nil
}

// tooLarge compares as Apache Kafka does, which counts UTF-16 units although the key speaks of bytes. Records hold 32,767 bytes
// whatever the limit.
func tooLarge(text string, limit int) bool {
	return len(text) > math.MaxInt16 || len(text) > limit && len(utf16.Encode([]rune(text))) > limit
}

// expireMs is when the offsets of a request expire, in milliseconds since 1970; -1 where the group's rules decide.
func expireMs(o *op.Op, req *kmsg.OffsetCommitRequest) int64 {
	now := o.Now.UnixMilli()
	switch {
	case req.Version < firstRetention || req.Version > lastRetention || req.RetentionTimeMillis == -1:
		return -1
	case req.RetentionTimeMillis > math.MaxInt64-now:
		return math.MaxInt64
	}
	return max(now+req.RetentionTimeMillis, 0)
}
