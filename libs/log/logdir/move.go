package logdir

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/log"
)

// futureMark ends the name of the folder in which a partition's log is made anew that moves here from another directory
// (KIP-113): <topic>-<partition>.<id>-future.
const futureMark = "-future"

// maxPreferred bounds how many directories are remembered for partitions that are not here.
const maxPreferred = 100_000

func (k key) String() string { return fmt.Sprintf("%s-%d", k.topic, k.partition) }

func parseFutureName(name string) (k key, ok bool) {
	rest, ok := strings.CutSuffix(name, futureMark)
	dot := strings.LastIndexByte(rest, '.')
	if !ok || dot < 0 {
		return key{}, false
	}
	topic, partition, ok := log.ParseDirName(rest[:dot])
	return key{topic, partition}, ok
}

// Move begins to move a partition's log to another directory: future is a log there that the caller brings up to the one that
// is in use, and then has take its place with Promote. One that moves elsewhere does not any more. With the directory in which
// the log lies already, future is nil and the log moves no more.
//
// Errors wrap kerr.LogDirNotFound for a directory that is none of the set's, kerr.KafkaStorageError when either directory is
// offline, and kerr.ReplicaNotAvailable when there is no such log: the directory is then where Create makes it.
func (s *Set) Move(topic string, partition int32, path string) (future *log.Log, err error) {
	s.creating.Lock()
	defer s.creating.Unlock()
	k := key{topic, partition}
	to, err := s.dir(path)
	if err != nil {
		return nil, err
	}
	s.mu.RLock()
	current, ok := s.logs[k]
	moving, moves := s.futures[k]
	s.mu.RUnlock()
	switch {
	case !ok:
		if len(s.preferred) < maxPreferred {
			s.preferred[k] = to
		}
		return nil, fmt.Errorf("%s is not here: %w", k, kerr.ReplicaNotAvailable)
	case current.Err() != nil:
		return nil, current.Err()
	case moves && moving.dir == to && moving.Err() == nil:
		return moving.Log, nil
	}
	if err := s.dropFuture(k); err != nil && moving.dir == to {
		return nil, err
	}
	if current.dir == to {
		return nil, nil
	}
	return s.createFuture(k, current, to)
}

// dir is the online directory of that path.
func (s *Set) dir(path string) (*dir, error) {
	for _, d := range s.dirs {
		if d.path == filepath.Clean(path) {
			return d, d.err()
		}
	}
	return nil, fmt.Errorf("%s is no log directory of this node: %w", path, kerr.LogDirNotFound)
}

// createFuture makes an empty log that begins where the current one does. creating is held.
func (s *Set) createFuture(k key, current placed, to *dir) (*log.Log, error) {
	if to.isStale(k) {
		if err := s.checkpoint(to, allCheckpoints...); err != nil {
			return nil, err
		}
	}
	l, err := s.openLog(to, filepath.Join(to.path, k.marked(futureMark)), current.Config(), log.Options{
		Name: k.String(), TopicID: current.TopicID(), LogStartOffset: current.StartOffset(), NowMs: s.o.NowMs(),
	})
	if err != nil {
		return nil, err
	}
	return s.enter(s.futures, k, placed{l, to})
}

// Future finds the log that is to take the place of a partition's.
func (s *Set) Future(topic string, partition int32) (*log.Log, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	l, ok := s.futures[key{topic, partition}]
	return l.Log, ok
}

// Futures are the logs that are to take the place of others, in no particular order. Those that a crash has interrupted are
// among them from Open on.
func (s *Set) Futures() []*log.Log {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return matching(s.futures, nil)
}

// dropFuture ends the move of a partition, if it moves. creating is held.
func (s *Set) dropFuture(k key) error {
	s.mu.Lock()
	l, ok := s.futures[k]
	if ok {
		delete(s.futures, k)
		l.dir.logs--
	}
	s.mu.Unlock()
	if !ok || l.dir.err() != nil {
		return nil
	}
	return s.doom(l)
}

// Promote puts the future of a partition in the place of its log, which it is to equal: nobody may change either meanwhile. It
// returns the log to use from now on, whose config is that of the old one. After a crash at any point either is found, and with
// it everything. On an error the old one stays in use; the directory that has failed is offline.
func (s *Set) Promote(topic string, partition int32) (*log.Log, error) {
	s.creating.Lock()
	defer s.creating.Unlock()
	k := key{topic, partition}
	s.mu.RLock()
	current, ok1 := s.logs[k]
	future, ok2 := s.futures[k]
	s.mu.RUnlock()
	if !ok1 || !ok2 {
		return nil, fmt.Errorf("%s does not move: %w", k, kerr.ReplicaNotAvailable)
	}
	d := future.dir
	if err := future.Close(); err != nil {
		return nil, err
	}
	fresh, err := s.settleIn(k, current, future)
	if err != nil {
		s.takeOffline(d, err)
		return nil, d.err()
	}
	s.mu.Lock()
	s.logs[k] = placed{fresh, d}
	delete(s.futures, k)
	current.dir.logs--
	s.mu.Unlock()
	current.Fence(fmt.Errorf("%s has moved to %s: %w", k, d.path, kerr.NotLeaderForPartition))
	if s.doom(current) != nil {
		d.logger.Warn("the log that has moved here is still where it was", zap.Stringer("partition", k), zap.String("in", current.dir.path))
	}
	return fresh, nil
}

// settleIn gives the folder of a closed future the partition's name and opens the log anew.
func (s *Set) settleIn(k key, current, future placed) (*log.Log, error) {
	d := future.dir
	if err := d.fs.Rename(future.Dir(), d.partitionPath(k)); err != nil {
		return nil, err
	}
	if err := d.fs.SyncDir(d.path); err != nil {
		return nil, err
	}
	return s.openLog(d, d.partitionPath(k), current.Config(), log.Options{
		TopicID: current.TopicID(), LogStartOffset: current.StartOffset(), HighWatermark: current.HighWatermark(), CleanedTo: current.CleanedTo(),
		RecoveryPoint: future.EndOffset(), CleanShutdown: true, NowMs: s.o.NowMs(),
	})
}

// admitFuture takes in a future that was found. Of two of one partition the latter goes.
func (s *Set) admitFuture(l placed) error {
	k := key{l.Topic(), l.Partition()}
	s.mu.Lock()
	_, twice := s.futures[k]
	if !twice {
		s.futures[k] = l
		l.dir.logs++
	}
	s.mu.Unlock()
	if !twice {
		return nil
	}
	return l.dir.doom(l.Log, s.o.NowMs())
}

// forgetOrphans deals, once all directories are open, with futures whose partition is not there or lies in the same directory.
// While a directory is offline, in which the partition may be, they wait for the next start.
func (s *Set) forgetOrphans() {
	s.creating.Lock()
	defer s.creating.Unlock()
	for _, l := range s.Futures() {
		k := key{l.Topic(), l.Partition()}
		s.mu.Lock()
		current, ok := s.logs[k]
		future := s.futures[k]
		orphan := !ok || current.dir == future.dir
		if orphan {
			delete(s.futures, k)
			future.dir.logs--
		}
		s.mu.Unlock()
		switch {
		case !orphan || future.dir.err() != nil:
		case ok:
			_ = s.doom(future) // a failure takes the directory offline
		case s.Failed() > 0:
			future.Fence(fmt.Errorf("%s is not here: %w", k, kerr.KafkaStorageError))
			future.Close()
		default:
			future.dir.logger.Warn("a log that was to take another's place is set aside, as there is no other", zap.Stringer("partition", k))
			_ = s.setAside(future)
		}
	}
}
