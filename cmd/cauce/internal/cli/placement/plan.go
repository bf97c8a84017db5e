// Package placement says which nodes are to have the replicas of partitions: plans as Apache Kafka's reassignment tool reads
// and writes them, and proposals for new ones. It is pure.
package placement

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Plan is where partitions are to be, as kafka-reassign-partitions has it.
type Plan struct {
	Version    int         `json:"version"` // 1
	Partitions []Partition `json:"partitions"`
}

// Partition is the replicas of one partition, the preferred leader first.
type Partition struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	Replicas  []int32 `json:"replicas"`
	// LogDirs is "any" for each replica; another one is refused, as replicas do not move between log directories.
	LogDirs []string `json:"log_dirs,omitempty"`
}

// Name is the partition's as folders have it.
func (p Partition) Name() string { return fmt.Sprintf("%s-%d", p.Topic, p.Partition) }

// New is a plan of the partitions in order.
func New(partitions []Partition) Plan {
	p := Plan{Version: 1, Partitions: append([]Partition{}, partitions...)}
	slices.SortFunc(p.Partitions, func(a, b Partition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return p
}

// Parse reads a plan and refuses one that does not say clearly where each partition is to be.
func Parse(data []byte) (Plan, error) {
	var p Plan
	if err := json.Unmarshal(data, &p); err != nil {
		return p, fmt.Errorf("not a plan: %w", err)
	}
	if p.Version != 1 {
		return p, fmt.Errorf("not a plan: version is %d instead of 1", p.Version)
	}
	if len(p.Partitions) == 0 {
		return p, errors.New("the plan has no partitions")
	}
	seen := map[string]bool{}
	for _, part := range p.Partitions {
		switch {
		case part.Topic == "":
			return p, errors.New("the plan has a partition without a topic")
		case seen[part.Name()]:
			return p, fmt.Errorf("the plan has %s twice", part.Name())
		case len(part.Replicas) == 0:
			return p, fmt.Errorf("the plan has no replicas for %s", part.Name())
		}
		seen[part.Name()] = true
		if r := slices.Sorted(slices.Values(part.Replicas)); len(slices.Compact(r)) != len(part.Replicas) {
			return p, fmt.Errorf("the plan has a node twice for %s", part.Name())
		}
		for _, dir := range part.LogDirs {
			if dir != "any" {
				return p, fmt.Errorf("the plan has log directory %q for %s: replicas cannot be moved between log directories", dir, part.Name())
			}
		}
	}
	return New(p.Partitions), nil
}
