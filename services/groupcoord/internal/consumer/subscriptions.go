package consumer

import "iter"

// Subscriptions are which groups of a shard subscribe to what. The groups keep it.
type Subscriptions struct {
	byTopic map[string]map[string]bool
	// searching are the groups with members that subscribe to an expression: any topic may be of interest to them.
	searching map[string]bool
}

// NewSubscriptions are those of no group.
func NewSubscriptions() *Subscriptions {
	return &Subscriptions{byTopic: map[string]map[string]bool{}, searching: map[string]bool{}}
}

// To are the ids of the groups that one of the topics may be of interest to, in no order; an id may come twice.
func (s *Subscriptions) To(topics []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if len(topics) == 0 {
			return
		}
		for id := range s.searching {
			if !yield(id) {
				return
			}
		}
		for _, topic := range topics {
			for id := range s.byTopic[topic] {
				if !yield(id) {
					return
				}
			}
		}
	}
}

// set notes whether a group subscribes to a topic by name.
func (s *Subscriptions) set(topic, group string, subscribes bool) {
	groups := s.byTopic[topic]
	switch {
	case !subscribes:
		if delete(groups, group); len(groups) == 0 {
			delete(s.byTopic, topic)
		}
	case groups == nil:
		s.byTopic[topic] = map[string]bool{group: true}
	default:
		groups[group] = true
	}
}

// setSearching notes whether a group subscribes to an expression.
func (s *Subscriptions) setSearching(group string, searches bool) {
	if searches {
		s.searching[group] = true
	} else {
		delete(s.searching, group)
	}
}
