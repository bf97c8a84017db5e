package logdir

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/cauce-stream/cauce/libs/log"
	"github.com/cauce-stream/cauce/libs/log/internal/disk"
)

const (
	lockFile   = ".lock"
	cleanFile  = ".kafka_cleanshutdown"
	deleteMark = "-delete"
	strayMark  = "-stray"
)

// dir is one log directory.
type dir struct {
	path   string
	id     [16]byte
	logger *zap.Logger
	fs     *disk.FS
	lock   *disk.FileLock
	failed atomic.Pointer[error] // why it is offline
	logs   int                   // how many lie here; under Set.mu
	loaded bool                  // what lies here is known, whatever has become of it since; set by Open

	mu       sync.Mutex // guards what follows and the writing of checkpoints
	doomed   []doomed
	stale    map[key]struct{}  // partitions that the checkpoint files may name although they are gone
	checksum map[string]uint32 // of the checkpoint files as written last

	queueMu   sync.Mutex
	queue     map[*log.Log]bool // logs to flush: only complete segments, or all (true)
	truncated bool              // some recovery point went back
	wake      chan struct{}     // has one token when the queue is not empty
}

// doomed is a folder of a deleted partition.
type doomed struct {
	path  string
	dueMs int64
}

func newDir(path string, logger *zap.Logger, fs *disk.FS) *dir {
	return &dir{
		path: path, logger: logger.With(zap.String("logDir", path)), fs: fs,
		stale: map[key]struct{}{}, checksum: map[string]uint32{}, queue: map[*log.Log]bool{}, wake: make(chan struct{}, 1),
	}
}

// err is why the directory is offline, or nil.
func (d *dir) err() error {
	if p := d.failed.Load(); p != nil {
		return *p
	}
	return nil
}

// acquire locks the directory against other processes, as Kafka does (fcntl), and other Sets.
func (d *dir) acquire() error {
	f, err := disk.Lock(filepath.Join(d.path, lockFile))
	if errors.Is(err, disk.ErrLocked) {
		return fmt.Errorf("%s is in use by another process: %w", d.path, errMismatch)
	}
	if err != nil {
		return err
	}
	d.lock = f
	return nil
}

// probe looks whether the directory is still there and may be written to, as a disk that nobody writes to says nothing.
func (d *dir) probe() error {
	if err := unix.Access(d.path, unix.W_OK); err != nil {
		return &os.PathError{Op: "access", Path: d.path, Err: err}
	}
	_, err := os.Stat(filepath.Join(d.path, metaFile))
	return err
}

func (d *dir) release() {
	if d.lock != nil {
		if err := d.lock.Close(); err != nil {
			d.logger.Warn("giving back a log directory's lock", zap.Error(err))
		}
		d.lock = nil
	}
}

// takeCleanMark tells whether the directory was closed in order. The mark is gone, on the disk too, before anything
// changes.
func (d *dir) takeCleanMark() (bool, error) {
	path := filepath.Join(d.path, cleanFile)
	if _, err := os.Stat(path); err != nil {
		if os.IsNotExist(err) {
			return false, nil
		}
		return false, err
	}
	if err := d.fs.Remove(path); err != nil {
		return false, err
	}
	return true, d.fs.SyncDir(d.path)
}

// found is a log that load has opened.
type found struct {
	folder
	log *log.Log
}

// load opens every partition folder, on threads goroutines.
func (d *dir) load(ctx context.Context, threads int, nowMs int64, open func(f folder, o log.Options) (*log.Log, error)) ([]found, error) {
	clean, err := d.takeCleanMark()
	if err != nil {
		return nil, err
	}
	points := map[string]map[key]int64{}
	for name := range checkpointed {
		if points[name], err = d.readCheckpoint(name); err != nil {
			return nil, err
		}
		for k := range points[name] {
			d.stale[k] = struct{}{}
		}
	}
	folders, err := d.folders(nowMs)
	if err != nil {
		return nil, err
	}
	if !clean && len(folders) > 0 {
		d.logger.Info("recovering after an unclean shutdown", zap.Int("logs", len(folders)))
	}
	logs := make([]found, len(folders))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(threads)
	for i, f := range folders {
		k := f.key
		delete(d.stale, k)
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			l, err := open(f, log.Options{
				RecoveryPoint: points[recoveryPointFile][k], LogStartOffset: points[startOffsetFile][k],
				HighWatermark: points[highWatermarkFile][k], CleanedTo: points[cleanedFile][k],
				CleanShutdown: clean, NowMs: nowMs,
			})
			logs[i] = found{f, l}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		for _, f := range logs {
			if l := f.log; l != nil {
				l.Fence(fmt.Errorf("%s is offline: %w", d.path, kerr.KafkaStorageError))
				l.Close()
			}
		}
		return nil, err
	}
	return logs, nil
}

// folder is a partition's in a directory.
type folder struct {
	key
	name   string
	future bool // it moves here from another directory
}

// folders lists the partitions of the directory. Those being deleted are doomed, those of others are left alone.
func (d *dir) folders(nowMs int64) ([]folder, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, err
	}
	var found []folder
	for _, e := range entries {
		name := e.Name()
		if !e.IsDir() || name == "__cluster_metadata-0" {
			continue
		}
		if strings.HasSuffix(name, deleteMark) {
			d.doomed = append(d.doomed, doomed{filepath.Join(d.path, name), nowMs})
		} else if topic, partition, ok := log.ParseDirName(name); ok {
			found = append(found, folder{key: key{topic, partition}, name: name})
		} else if k, ok := parseFutureName(name); ok {
			found = append(found, folder{key: k, name: name, future: true})
		}
	}
	return found, nil
}

func (d *dir) partitionPath(k key) string {
	return filepath.Join(d.path, fmt.Sprintf("%s-%d", k.topic, k.partition))
}

// doom renames the folder of a log that is deleted.
func (d *dir) doom(l *log.Log, dueMs int64) error {
	path, err := d.retire(l, deleteMark)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.doomed = append(d.doomed, doomed{path, dueMs})
	return nil
}

// retire renames the folder of a log that is no longer a partition's, to one with the mark at its end.
func (d *dir) retire(l *log.Log, mark string) (path string, err error) {
	k := key{l.Topic(), l.Partition()}
	path = filepath.Join(d.path, k.marked(mark))
	err = l.Retire(path)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stale[k] = struct{}{}
	return path, err
}

// marked is the name of a folder of the partition that is not its log: <topic>-<partition>.<id><mark>.
func (k key) marked(mark string) string {
	id := newID()
	suffix := fmt.Sprintf("-%d.%s%s", k.partition, hex.EncodeToString(id[:]), mark)
	return k.topic[:min(len(k.topic), 255-len(suffix))] + suffix // 255 is the longest file name
}

// sweep removes the folders of deleted partitions that are due.
func (d *dir) sweep(nowMs int64) error {
	d.mu.Lock()
	due := slices.Clone(d.doomed)
	d.doomed = slices.DeleteFunc(d.doomed, func(x doomed) bool { return x.dueMs <= nowMs })
	d.mu.Unlock()
	var failed error
	for _, x := range due {
		if x.dueMs <= nowMs {
			failed = errors.Join(failed, d.fs.Remove(x.path))
		}
	}
	return failed
}

// checkpoint writes one checkpoint file, unless it would be what it is already. d.mu is held.
func (d *dir) checkpoint(name string, n int, entries iter.Seq2[key, int64]) error {
	content := encodeCheckpoint(n, entries)
	sum := crc32.ChecksumIEEE(content)
	if last, ok := d.checksum[name]; ok && last == sum {
		return nil
	}
	if err := d.fs.WriteFile(filepath.Join(d.path, name), content, true); err != nil {
		return err
	}
	d.checksum[name] = sum
	return nil
}

// checkpoints writes the named checkpoint files for the logs of the directory.
func (d *dir) checkpoints(logs []*log.Log, names ...string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	slices.SortFunc(logs, func(a, b *log.Log) int {
		if c := strings.Compare(a.Topic(), b.Topic()); c != 0 {
			return c
		}
		return int(a.Partition()) - int(b.Partition())
	})
	for _, name := range names {
		offsets := make([]int64, len(logs)) // read once, as the file begins with how many there are
		n := 0
		for i, l := range logs {
			if offsets[i] = checkpointed[name](l); offsets[i] > 0 || !sparse(name) {
				n++
			}
		}
		err := d.checkpoint(name, n, func(yield func(key, int64) bool) {
			for i, l := range logs {
				if offsets[i] == 0 && sparse(name) {
					continue
				}
				if !yield(key{l.Topic(), l.Partition()}, offsets[i]) {
					return
				}
			}
		})
		if err != nil {
			return err
		}
	}
	if len(names) == len(allCheckpoints) {
		clear(d.stale)
	}
	return nil
}

// isStale tells whether the checkpoint files may still hold offsets of an earlier log of the partition.
func (d *dir) isStale(k key) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.stale[k]
	return ok
}

// What the flusher is asked to do.
type work int8

const (
	flushRolled work = iota // segments that are complete
	flushAll
	flushTruncated // the same as flushRolled, and write down the recovery point, which went back
)

// enqueue asks the flusher for work on a log. The log may be locked.
func (d *dir) enqueue(l *log.Log, w work) {
	d.queueMu.Lock()
	d.queue[l] = d.queue[l] || w == flushAll
	d.truncated = d.truncated || w == flushTruncated
	d.queueMu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// drain takes the queue.
func (d *dir) drain() (logs map[*log.Log]bool, truncated bool) {
	d.queueMu.Lock()
	defer d.queueMu.Unlock()
	logs, truncated = d.queue, d.truncated
	d.queue, d.truncated = map[*log.Log]bool{}, false
	return logs, truncated
}

// usage is the size of the file system the directory lies on, and what is free for us.
func (d *dir) usage() (total, usable int64) {
	var s unix.Statfs_t
	if err := unix.Statfs(d.path, &s); err != nil {
		return -1, -1
	}
	return int64(s.Blocks) * int64(s.Bsize), int64(s.Bavail) * int64(s.Bsize)
}
