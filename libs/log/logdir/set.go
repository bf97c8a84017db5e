// Package logdir keeps the log directories of one broker: it finds and opens the partition folders, creates, deletes and
// places logs, and drives their periodic duties.
package logdir

import (
	"context"
	"errors"
	"iter"

	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/log"
)

var errUnfinished = errors.New("logdir: not built yet")

// Options says how to open a set of log directories. Times are in milliseconds; zero takes Kafka's default.
type Options struct {
	NodeID    int32
	ClusterID string // written to a new meta.properties, compared with an existing one; "" accepts any
	Logger    *zap.Logger

	// ConfigFor gives the config of a topic's logs; nil gives log.DefaultConfig.
	ConfigFor func(topic string) log.Config
	// OnFailure is told once per directory that went offline. It must not call back into the Set.
	OnFailure func(dir string, err error)
	// NowMs is the clock; nil is the wall clock.
	NowMs func() int64

	RecoveryThreads           int   // num.recovery.threads.per.data.dir; 0 = number of CPUs
	RetentionCheckMs          int64 // log.retention.check.interval.ms, 300000
	FlushSchedulerMs          int64 // log.flush.scheduler.interval.ms: how often flush.ms is looked at, 1000
	RecoveryPointCheckpointMs int64 // log.flush.offset.checkpoint.interval.ms, 60000
	StartOffsetCheckpointMs   int64 // log.flush.start.offset.checkpoint.interval.ms, 60000
	HighWatermarkCheckpointMs int64 // replica.high.watermark.checkpoint.interval.ms, 5000
	ProducerExpirationCheckMs int64 // producer.id.expiration.check.interval.ms, 600000
}

// Set is the log directories of one broker.
type Set struct{}

// Open locks and loads the directories, creating those that are missing. It returns when every log is recovered. A
// directory that fails is offline; an error means that none is left, or that a directory belongs to another node,
// cluster or process.
func Open(ctx context.Context, dirs []string, o Options) (*Set, error) { return nil, errUnfinished }

// Run drives the periodic duties until ctx ends. Close still has to be called.
func (s *Set) Run(ctx context.Context) error { return nil }

// Close closes every log in order, writes the checkpoints and the clean-shutdown marker and gives up the locks.
func (s *Set) Close() error { return nil }

// Log finds the log of a partition.
func (s *Set) Log(topic string, partition int32) (*log.Log, bool) { return nil, false }

// Create makes the log of a partition in the online directory with the fewest logs; an existing log of the same topic id
// is returned as it is. Another id is an error wrapping kerr.InconsistentTopicID.
func (s *Set) Create(topic string, partition int32, id log.TopicID, c log.Config) (*log.Log, error) {
	return nil, errUnfinished
}

// Delete takes the partition's log away: its folder is renamed at once and removed after file.delete.delay.ms.
func (s *Set) Delete(topic string, partition int32) error { return errUnfinished }

// All yields every online log, in no particular order.
func (s *Set) All() iter.Seq[*log.Log] { return func(func(*log.Log) bool) {} }

// DirInfo describes one directory, as DescribeLogDirs does.
type DirInfo struct {
	Path        string
	ID          [16]byte // directory.id
	Err         error    // why it is offline, wrapping kerr.KafkaStorageError; nil when it is online
	TotalBytes  int64
	UsableBytes int64
	Logs        []*log.Log
}

// Describe describes every directory.
func (s *Set) Describe() []DirInfo { return nil }

// CheckpointHighWatermarks writes replication-offset-checkpoint, as Run does every 5 s.
func (s *Set) CheckpointHighWatermarks() error { return nil }

// CheckpointStartOffsets writes log-start-offset-checkpoint, so that a DeleteRecords outlives a crash.
func (s *Set) CheckpointStartOffsets() error { return nil }
