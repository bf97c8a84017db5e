// Package logdir keeps the log directories of one broker: it finds and opens the partition folders, creates, deletes and
// places logs, and drives their periodic duties.
//
// A directory that fails goes offline alone: its logs answer KafkaStorageError and the others carry on.
package logdir

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/cauce-stream/cauce/libs/log"
	"github.com/cauce-stream/cauce/libs/log/internal/disk"
)

// Options says how to open a set of log directories. Times are in milliseconds; zero takes Kafka's default.
type Options struct {
	NodeID    int32
	ClusterID string // written to a new meta.properties, compared with an existing one; "" accepts any
	Logger    *zap.Logger

	// ConfigFor gives the config of a topic's logs; nil gives log.DefaultConfig.
	ConfigFor func(topic string) log.Config
	// OnFailure is told once per directory that goes offline while the Set runs. It must not call back into the Set.
	OnFailure func(dir string, err error)
	// OnStartMoved is told of each log whose start retention has moved.
	OnStartMoved func(l *log.Log)
	// NowMs is the clock; nil is the wall clock.
	NowMs func() int64

	RecoveryThreads           int   // num.recovery.threads.per.data.dir; 0 = number of CPUs
	RetentionCheckMs          int64 // log.retention.check.interval.ms, 300000
	FlushSchedulerMs          int64 // log.flush.scheduler.interval.ms: how often flush.ms and due deletions are looked at, 1000 at most
	RecoveryPointCheckpointMs int64 // log.flush.offset.checkpoint.interval.ms, 60000
	StartOffsetCheckpointMs   int64 // log.flush.start.offset.checkpoint.interval.ms, 60000
	HighWatermarkCheckpointMs int64 // replica.high.watermark.checkpoint.interval.ms, 5000
	ProducerExpirationCheckMs int64 // producer.id.expiration.check.interval.ms, 600000

	FS *disk.FS // for tests; nil is the file system
}

func (o *Options) setDefaults() {
	for p, v := range map[*int64]int64{
		&o.RetentionCheckMs: 300_000, &o.FlushSchedulerMs: 1000, &o.RecoveryPointCheckpointMs: 60_000,
		&o.StartOffsetCheckpointMs: 60_000, &o.HighWatermarkCheckpointMs: 5000, &o.ProducerExpirationCheckMs: 600_000,
	} {
		if *p <= 0 {
			*p = v
		}
	}
	if o.RecoveryThreads <= 0 {
		o.RecoveryThreads = runtime.GOMAXPROCS(0)
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if o.ConfigFor == nil {
		o.ConfigFor = func(string) log.Config { return log.DefaultConfig() }
	}
	if o.OnStartMoved == nil {
		o.OnStartMoved = func(*log.Log) {}
	}
	if o.NowMs == nil {
		o.NowMs = func() int64 { return time.Now().UnixMilli() }
	}
}

// Set is the log directories of one broker. Methods are safe for concurrent use.
type Set struct {
	o    Options
	dirs []*dir

	creating sync.Mutex  // one Create or Delete at a time
	expect   atomic.Bool // see ExpectNew
	// preferred is where Create is to make logs that Move was asked for before they were there; under creating.
	preferred map[key]*dir
	mu        sync.RWMutex
	logs      map[key]placed // changed under both
	futures   map[key]placed // that are to take the place of those in logs; changed under both
}

// placed is a log and where it lies.
type placed struct {
	*log.Log
	dir *dir
}

// Open locks and loads the directories, creating those that are missing. It returns when every log is recovered. A
// directory that fails is offline; an error means that none is left, or that a directory belongs to another node,
// cluster or process.
func Open(ctx context.Context, dirs []string, o Options) (*Set, error) {
	o.setDefaults()
	s := &Set{o: o, logs: map[key]placed{}, futures: map[key]placed{}, preferred: map[key]*dir{}}
	for _, path := range dirs {
		s.dirs = append(s.dirs, newDir(filepath.Clean(path), o.Logger, o.FS))
	}
	errs := make([]error, len(s.dirs))
	var wg sync.WaitGroup
	for i, d := range s.dirs {
		wg.Go(func() { errs[i] = s.openDir(ctx, d) })
	}
	wg.Wait()
	all := errors.Join(errs...)
	online := 0
	for i, d := range s.dirs {
		if errs[i] == nil {
			online++
			continue
		}
		s.takeOffline(d, errs[i])
	}
	if errors.Is(all, errMismatch) || ctx.Err() != nil || online == 0 {
		s.abandon()
		if all == nil {
			all = errors.New("no log directory is given")
		}
		return nil, all
	}
	s.forgetOrphans()
	return s, nil
}

// openDir brings one directory up.
func (s *Set) openDir(ctx context.Context, d *dir) error {
	if err := d.fs.MkdirAll(d.path); err != nil {
		return err
	}
	if err := d.acquire(); err != nil {
		return err
	}
	if err := d.identify(s.o.NodeID, s.o.ClusterID); err != nil {
		return err
	}
	logs, err := d.load(ctx, s.o.RecoveryThreads, s.o.NowMs(), func(f folder, o log.Options) (*log.Log, error) {
		o.Name = f.key.String()
		return s.openLog(d, filepath.Join(d.path, f.name), s.o.ConfigFor(f.topic), o)
	})
	if err != nil {
		return err
	}
	for _, f := range logs {
		admit := s.admit
		if f.future {
			admit = s.admitFuture
		}
		if err := admit(placed{f.log, d}); err != nil {
			return err
		}
	}
	d.loaded = true
	return nil
}

// admit takes in a log that was found. Where a partition lies in two directories, as after a crash just before the end of a
// move, the log that goes further stays, which has all that the other has, and the other is set aside.
func (s *Set) admit(l placed) error {
	k := key{l.Topic(), l.Partition()}
	s.mu.Lock()
	other, twice := s.logs[k]
	if twice && l.TopicID() != other.TopicID() {
		s.mu.Unlock()
		return fmt.Errorf("%s lies in %s and, of another topic id, in %s", filepath.Base(l.Log.Dir()), other.dir.path, l.dir.path)
	}
	stays, goes := l, other
	if twice && !goesFurther(l.Log, other.Log) {
		stays, goes = other, l
	}
	s.logs[k] = stays
	l.dir.logs++
	if twice {
		goes.dir.logs--
	}
	s.mu.Unlock()
	if !twice {
		return nil
	}
	goes.dir.logger.Warn("a partition lies in two directories; the log that goes less far is set aside",
		zap.String("log", goes.Log.Dir()), zap.Int64("end", goes.EndOffset()), zap.String("stays", stays.Log.Dir()), zap.Int64("itsEnd", stays.EndOffset()))
	if err := s.setAside(goes); goes.dir == l.dir {
		return err
	}
	return nil // the other directory has gone offline for it
}

// goesFurther says whether a has all that b has, and more: replicas that end in the same leader epoch are the same up to the
// shorter one's end, and one of a later epoch was made equal to its leader's before that.
func goesFurther(a, b *log.Log) bool {
	return cmp.Or(cmp.Compare(a.LatestEpoch(), b.LatestEpoch()), cmp.Compare(a.EndOffset(), b.EndOffset())) > 0
}

func (s *Set) openLog(d *dir, path string, c log.Config, o log.Options) (*log.Log, error) {
	o.Config, o.Logger, o.FS = c, s.o.Logger, s.o.FS
	o.OnRoll = func(l *log.Log) { d.enqueue(l, flushRolled) }
	o.OnTruncate = func(l *log.Log) { d.enqueue(l, flushTruncated) }
	o.OnFailure = func(_ *log.Log, err error) { s.takeOffline(d, err) }
	return log.Open(path, o)
}

// takeOffline ends all use of a directory. It may be called with a log locked.
func (s *Set) takeOffline(d *dir, cause error) {
	err := fmt.Errorf("log directory %s is offline: %w: %w", d.path, kerr.KafkaStorageError, cause)
	if !d.failed.CompareAndSwap(nil, &err) {
		return
	}
	d.logger.Error("log directory is offline", zap.Error(cause))
	for _, l := range s.snapshot(d) {
		l.Fence(err)
	}
	if s.o.OnFailure != nil {
		s.o.OnFailure(d.path, err)
	}
}

// abandon gives up what Open has taken.
func (s *Set) abandon() {
	for _, l := range append(matching(s.logs, nil), matching(s.futures, nil)...) {
		l.Fence(fmt.Errorf("%s is closed: %w", l.Dir(), kerr.KafkaStorageError))
		l.Close()
	}
	for _, d := range s.dirs {
		d.release()
	}
}

// Log finds the log of a partition. That of a directory that has gone offline answers only errors.
func (s *Set) Log(topic string, partition int32) (*log.Log, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	l, ok := s.logs[key{topic, partition}]
	return l.Log, ok
}

// All yields every log, in no particular order, those of directories that have gone offline too.
func (s *Set) All() iter.Seq[*log.Log] {
	return func(yield func(*log.Log) bool) {
		s.mu.RLock()
		logs := matching(s.logs, nil)
		s.mu.RUnlock()
		for _, l := range logs {
			if !yield(l) {
				return
			}
		}
	}
}

// snapshot is the logs of d, futures too.
func (s *Set) snapshot(d *dir) []*log.Log {
	logs, futures := s.contents(d)
	return append(logs, futures...)
}

func (s *Set) contents(d *dir) (logs, futures []*log.Log) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return matching(s.logs, d), matching(s.futures, d)
}

// matching is the logs that lie in d, or all if it is nil.
func matching(logs map[key]placed, d *dir) []*log.Log {
	var list []*log.Log
	for _, l := range logs {
		if d == nil || l.dir == d {
			list = append(list, l.Log)
		}
	}
	return list
}

// Create makes the log of a partition in the online directory with the fewest logs; an existing log of the same topic id
// is returned as it is. Errors wrap kerr.InconsistentTopicID when it has another id and kerr.KafkaStorageError, also when
// the partition may lie in a directory that is offline (see ExpectNew).
func (s *Set) Create(topic string, partition int32, id log.TopicID, c log.Config) (*log.Log, error) {
	s.creating.Lock()
	defer s.creating.Unlock()
	k := key{topic, partition}
	s.mu.RLock()
	existing, ok := s.logs[k]
	s.mu.RUnlock()
	if ok {
		if err := existing.SetTopicID(id); err != nil {
			return nil, err
		}
		return existing.Log, nil
	}
	d, err := s.place(k)
	if err != nil {
		return nil, err
	}
	if d.isStale(k) {
		// The checkpoint files know an earlier log of the name, whose offsets must not meet this one after a crash.
		if err := s.checkpoint(d, allCheckpoints...); err != nil {
			return nil, err
		}
	}
	l, err := s.openLog(d, d.partitionPath(k), c, log.Options{TopicID: id, NowMs: s.o.NowMs()})
	if err != nil {
		return nil, err
	}
	return s.enter(s.logs, k, placed{l, d})
}

// enter has a log that is new among the set's, which of them says in.
func (s *Set) enter(in map[key]placed, k key, p placed) (*log.Log, error) {
	s.mu.Lock()
	in[k] = p
	p.dir.logs++
	s.mu.Unlock()
	if err := p.dir.err(); err != nil {
		p.Fence(err) // it went offline meanwhile
		return nil, err
	}
	return p.Log, nil
}

// ExpectNew says that Create is called for partitions from now on that this node had no replica of before: they cannot lie in a
// directory that was unreadable at the start.
func (s *Set) ExpectNew() { s.expect.Store(true) }

// place chooses the directory for a new log.
func (s *Set) place(k key) (*dir, error) {
	best := s.preferred[k]
	delete(s.preferred, k)
	if best != nil && best.err() == nil {
		return best, nil
	}
	best = nil
	for _, d := range s.dirs {
		if err := d.err(); err == nil {
			if best == nil || d.logs < best.logs {
				best = d
			}
		} else if s.mayHold(d, k) {
			return nil, err // a replica born anew would pass for one that has lost everything
		}
	}
	if best == nil {
		return nil, s.dirs[0].err()
	}
	return best, nil
}

// mayHold says whether a directory that is offline may have a log of the partition that the set does not know.
func (s *Set) mayHold(d *dir, k key) bool {
	_, err := os.Stat(d.partitionPath(k))
	switch {
	case err == nil:
		return true
	case d.loaded || s.expect.Load():
		return false
	case !os.IsNotExist(err):
		return true
	}
	_, err = os.ReadDir(d.path) // it is not there only if everything else is
	return err != nil
}

// Delete takes the partition's log away: its folder is renamed at once and removed after file.delete.delay.ms. It is no
// error when there is none.
func (s *Set) Delete(topic string, partition int32) error {
	s.creating.Lock()
	defer s.creating.Unlock()
	l, ok := s.take(key{topic, partition})
	if !ok {
		return nil
	}
	return errors.Join(s.dropFuture(key{topic, partition}), s.doom(l))
}

// doom has the folder of a log removed after file.delete.delay.ms.
func (s *Set) doom(l placed) error {
	if err := l.dir.doom(l.Log, s.o.NowMs()+l.Config().FileDeleteDelayMs); err != nil {
		s.takeOffline(l.dir, err)
		return l.dir.err()
	}
	return nil
}

// DirInfo describes one directory, as DescribeLogDirs does.
type DirInfo struct {
	Path        string
	ID          [16]byte // directory.id
	Err         error    // why it is offline, wrapping kerr.KafkaStorageError; nil when it is online
	TotalBytes  int64    // of its file system; -1 when unknown
	UsableBytes int64
	Logs        []*log.Log
	Futures     []*log.Log // that move here, see Move
}

// Describe describes every directory.
func (s *Set) Describe() []DirInfo {
	infos := make([]DirInfo, len(s.dirs))
	for i, d := range s.dirs {
		infos[i] = DirInfo{Path: d.path, ID: d.id, Err: d.err(), TotalBytes: -1, UsableBytes: -1}
		if infos[i].Err == nil {
			infos[i].TotalBytes, infos[i].UsableBytes = d.usage()
			infos[i].Logs, infos[i].Futures = s.contents(d)
		}
	}
	return infos
}

// Failed is the number of directories that are offline.
func (s *Set) Failed() int { return len(s.dirs) - len(s.online()) }

// Close closes every log in order, writes the checkpoints and the clean-shutdown marker and gives up the locks. Run must
// have returned. The Set is of no use afterwards.
func (s *Set) Close() error {
	var failed error
	for _, d := range s.dirs {
		if d.err() == nil {
			failed = errors.Join(failed, s.closeDir(d))
		}
		for _, l := range s.snapshot(d) {
			l.Close() // those that are open still let go of their files
		}
		d.release()
	}
	return failed
}

// manyLogs is from how many logs on one sync of the file system is quicker than one for each.
const manyLogs = 64

func (s *Set) closeDir(d *dir) error {
	logs := s.snapshot(d)
	close := (*log.Log).Close
	if len(logs) >= manyLogs {
		close = (*log.Log).CloseUnsynced
	}
	var group errgroup.Group
	group.SetLimit(s.o.RecoveryThreads)
	for _, l := range logs {
		group.Go(func() error { return close(l) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if len(logs) >= manyLogs {
		if err := d.fs.SyncAll(d.path); err != nil {
			return err
		}
	}
	if err := s.checkpoint(d, allCheckpoints...); err != nil {
		return err
	}
	// Kafka keeps the broker's registration epoch here, -1 when it has none.
	return d.fs.WriteFile(filepath.Join(d.path, cleanFile), []byte(`{"version":0,"brokerEpoch":-1}`), true)
}

// online is the directories that are not offline.
func (s *Set) online() []*dir {
	return slices.DeleteFunc(slices.Clone(s.dirs), func(d *dir) bool { return d.err() != nil })
}
