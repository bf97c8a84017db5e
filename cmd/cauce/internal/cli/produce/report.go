package produce

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
)

type report struct {
	Topic      string            `json:"topic"`
	Records    int64             `json:"records"`
	Bytes      int64             `json:"bytes"` // of keys and values
	Seconds    float64           `json:"seconds"`
	Partitions []partitionReport `json:"partitions"`
}

type partitionReport struct {
	Partition int32 `json:"partition"`
	Records   int64 `json:"records"`
	First     int64 `json:"first_offset"` // -1: not told, as with acks=0
	Last      int64 `json:"last_offset"`
}

func (s *sender) tally() report {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := report{Topic: s.topic, Bytes: s.bytes, Seconds: time.Since(s.started).Seconds(), Partitions: []partitionReport{}}
	for _, id := range slices.Sorted(maps.Keys(s.partitions)) {
		p := s.partitions[id]
		r.Records += p.records
		r.Partitions = append(r.Partitions, partitionReport{id, p.records, p.first, p.last})
	}
	return r
}

func (p *production) report(r report) error {
	if p.quiet || len(r.Partitions) == 0 && p.session.Format == output.Tabular {
		return nil
	}
	return p.session.Print(r, func() *output.Table {
		table := output.NewTable(output.Left("TOPIC"), output.Right("PARTITION"), output.Right("RECORDS"), output.Right("FIRST OFFSET"), output.Right("LAST OFFSET"))
		for _, partition := range r.Partitions {
			table.Row(r.Topic, partition.Partition, partition.Records, offset(partition.First), offset(partition.Last))
		}
		return table
	})
}

func offset(n int64) string {
	if n < 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}
