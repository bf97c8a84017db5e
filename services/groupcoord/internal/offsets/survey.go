package offsets

import "github.com/cauce-stream/cauce/libs/metadata"

// Committed is an offset of a group.
type Committed struct {
	Topic     string
	Partition int32
	Offset    int64
}

// Count is how many offsets a group has.
func (s *Store) Count(group string) int { return len(s.committed[group]) }

// Committed are a group's offsets in topics that there are, in order.
func (s *Store) Committed(im *metadata.Image, group string) []Committed {
	t := s.committed[group]
	all := make([]Committed, 0, len(t))
	for _, at := range t.ordered() {
		if e := t[at]; !(life{at.topic, e.TopicID}).over(im) {
			all = append(all, Committed{at.topic, at.index, e.Offset})
		}
	}
	return all
}
