package plugin

import "context"

// Partitioner chooses the partitions of records wherever Cauce itself produces.
type Partitioner interface {
	Plugin
	// Partition returns one partition for each record, from 0 up to partitions, which is at least 1.
	Partition(ctx context.Context, topic string, partitions int32, records []Record) ([]int32, error)
}

// Record is what the choice of a partition may rest on. A nil key or value is null.
type Record struct{ Key, Value []byte }
