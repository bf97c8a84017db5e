package api

import (
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
		byTopic := map[string]int{}
		slices.SortFunc(dir.Logs, func(a, b *log.Log) int {
			if c := strings.Compare(a.Topic(), b.Topic()); c != 0 {
				return c
			}
			return int(a.Partition() - b.Partition())
		})
		for _, l := range dir.Logs {
			if !wanted(l.Topic(), l.Partition()) {
				continue
			}
			i, ok := byTopic[l.Topic()]
			if !ok {
				i = len(out.Topics)
				byTopic[l.Topic()] = i
				t := kmsg.NewDescribeLogDirsResponseDirTopic()
				t.Topic = l.Topic()
				out.Topics = append(out.Topics, t)
			}
			part := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
			part.Partition, part.Size = l.Partition(), l.SizeBytes()
			if p, err := s.parts.Lookup(l.Topic(), metadata.TopicID{}, l.Partition()); err == nil {
				part.OffsetLag = p.Lag()
			}
			out.Topics[i].Partitions = append(out.Topics[i].Partitions, part)
		}
		resp.Dirs = append(resp.Dirs, out)
	}
	return resp
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
