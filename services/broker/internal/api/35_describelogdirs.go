package api

import (
	"cmp"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/log"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/broker/internal/wire"
)

// describeLogDirs answers DescribeLogDirs v1-5 (KIP-113; sizes of the volume by KIP-827).
func (s *Service) describeLogDirs(q *kmsg.DescribeLogDirsRequest) kmsg.Response {
	resp := q.ResponseKind().(*kmsg.DescribeLogDirsResponse)
	wanted := wantedPartitions(q)
	for _, dir := range s.logs.Describe() {
		out := kmsg.NewDescribeLogDirsResponseDir()
		out.Dir, out.ErrorCode, out.TotalBytes, out.UsableBytes = dir.Path, wire.Code(dir.Err), dir.TotalBytes, dir.UsableBytes
		for _, l := range sorted(append(dir.Logs, dir.Futures...)) {
			if wanted(l.Topic(), l.Partition()) {
				s.addReplica(&out, l)
			}
		}
		resp.Dirs = append(resp.Dirs, out)
	}
	return resp
}

// sorted puts logs in order of topic and partition.
func sorted(logs []*log.Log) []*log.Log {
	slices.SortFunc(logs, func(a, b *log.Log) int {
		return cmp.Or(strings.Compare(a.Topic(), b.Topic()), cmp.Compare(a.Partition(), b.Partition()))
	})
	return logs
}

// addReplica describes a log that lies in the directory: a replica, or one that moves there.
func (s *Service) addReplica(dir *kmsg.DescribeLogDirsResponseDir, l *log.Log) {
	if n := len(dir.Topics); n == 0 || dir.Topics[n-1].Topic != l.Topic() {
		t := kmsg.NewDescribeLogDirsResponseDirTopic()
		t.Topic = l.Topic()
		dir.Topics = append(dir.Topics, t)
	}
	part := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
	part.Partition, part.Size = l.Partition(), l.SizeBytes()
	if current, ok := s.logs.Log(l.Topic(), l.Partition()); ok && current != l {
		part.IsFuture, part.OffsetLag = true, max(current.EndOffset()-l.EndOffset(), 0)
	} else if p, err := s.parts.Lookup(l.Topic(), metadata.TopicID{}, l.Partition()); err == nil {
		part.OffsetLag = p.Lag()
	}
	t := &dir.Topics[len(dir.Topics)-1]
	t.Partitions = append(t.Partitions, part)
}

// wantedPartitions is the filter that the request names; none means all.
func wantedPartitions(q *kmsg.DescribeLogDirsRequest) func(topic string, partition int32) bool {
	if q.Topics == nil {
		return func(string, int32) bool { return true }
	}
	wanted := map[string]map[int32]bool{}
	for _, t := range q.Topics {
		if wanted[t.Topic] == nil {
			wanted[t.Topic] = map[int32]bool{}
		}
		for _, p := range t.Partitions {
			wanted[t.Topic][p] = true
		}
	}
	return func(topic string, partition int32) bool { return wanted[topic][partition] }
}
