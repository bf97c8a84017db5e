package schema

import (
	"cmp"
	"slices"
)

func (p Partition) compare(q Partition) int {
	return cmp.Or(cmp.Compare(p.Topic, q.Topic), cmp.Compare(p.ID, q.ID))
}

// Sort brings partitions into order and drops those that are there twice, in place.
func Sort(list []Partition) []Partition {
	slices.SortFunc(list, Partition.compare)
	return slices.Compact(list)
}

// Contains says whether a list in order has the partition.
func Contains(list []Partition, p Partition) bool {
	_, found := slices.BinarySearchFunc(list, p, Partition.compare)
	return found
}
