package api

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/broker/internal/wire"
)

// alterReplicaLogDirs answers AlterReplicaLogDirs v1-2 (KIP-113). The answer says whether the moves have begun.
func (s *Service) alterReplicaLogDirs(q *kmsg.AlterReplicaLogDirsRequest) kmsg.Response {
	resp := q.ResponseKind().(*kmsg.AlterReplicaLogDirsResponse)
	byTopic := map[string]int{}
	for i := range q.Dirs {
		dir := &q.Dirs[i]
		for j := range dir.Topics {
			t := &dir.Topics[j]
			at, ok := byTopic[t.Topic]
			if !ok {
				at = len(resp.Topics)
				byTopic[t.Topic] = at
				out := kmsg.NewAlterReplicaLogDirsResponseTopic()
				out.Topic = t.Topic
				resp.Topics = append(resp.Topics, out)
			}
			for _, id := range t.Partitions {
				part := kmsg.NewAlterReplicaLogDirsResponseTopicPartition()
				part.Partition, part.ErrorCode = id, wire.Code(s.move(t.Topic, id, dir.Dir))
				resp.Topics[at].Partitions = append(resp.Topics[at].Partitions, part)
			}
		}
	}
	return resp
}

// move begins to move a replica to another log directory, or calls its move off where it lies there already.
func (s *Service) move(topic string, id int32, dir string) error {
	p, err := s.parts.Lookup(topic, metadata.TopicID{}, id)
	if err == nil && p.Failed() {
		return fmt.Errorf("%s: %w", p, kerr.KafkaStorageError)
	}
	if _, lies := s.logs.Log(topic, id); lies && err != nil {
		return fmt.Errorf("%s-%d is no replica: %w", topic, id, kerr.ReplicaNotAvailable)
	}
	future, err := s.logs.Move(topic, id, dir)
	if err == nil && future != nil {
		s.moves.Start(p)
	}
	return err
}
