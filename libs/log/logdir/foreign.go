package logdir

import "errors"

// JoinCluster notes the id of the cluster that the node has joined, in the directories that do not know it yet. The error
// names a directory that belongs to another cluster.
func (s *Set) JoinCluster(id string) error {
	for _, d := range s.dirs {
		if d.err() != nil {
			continue
		}
		if err := d.identify(s.o.NodeID, id); err != nil {
			return err
		}
	}
	return nil
}

// SetAside takes away a log that the cluster knows nothing of: its folder is renamed to <topic>-<partition>.<id>-stray, as
// Kafka does, and stays for somebody to look at. It is no error when there is none.
func (s *Set) SetAside(topic string, partition int32) error {
	s.creating.Lock()
	defer s.creating.Unlock()
	l, ok := s.take(key{topic, partition})
	if !ok {
		return nil
	}
	return errors.Join(s.dropFuture(key{topic, partition}), s.setAside(l))
}

// setAside renames the folder of a log that is no longer in the set.
func (s *Set) setAside(l placed) error {
	if _, err := l.dir.retire(l.Log, strayMark); err != nil {
		s.takeOffline(l.dir, err)
		return l.dir.err()
	}
	return nil
}

// take removes a log from the set. creating is held.
func (s *Set) take(k key) (placed, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.logs[k]
	if ok {
		delete(s.logs, k)
		l.dir.logs--
	}
	return l, ok
}
