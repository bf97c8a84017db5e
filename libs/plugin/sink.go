package plugin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin/data"
)

// SinkTask writes into another system, in a process of its own. Its methods are called one at a time.
type SinkTask interface {
	// Start is called first. ctx ends when the task is to end.
	Start(ctx context.Context, c *SinkContext, config map[string]string) error
	// Put takes records, in the order of each partition. It may keep some to itself until it is asked for a Flush or PreCommit.
	// It is called without any now and then. After a Retriable error it is called with the same records, any other fails the
	// task. After a failure of the task records are put again, so that what was written may be written again.
	Put(ctx context.Context, records []SinkRecord) error
	// Stop is called last, after Close, and after a Start that failed, too.
	Stop() error
}

// SinkRecord is a record of a topic.
type SinkRecord struct {
	// Record is as the connector's transforms have made it.
	data.Record
	// Original is the partition that it was read from. Whatever has to do with offsets goes by that, not by Topic and Partition.
	Original TopicPartition
}

// PartitionFollower is a SinkTask that keeps something for each partition.
type PartitionFollower interface {
	// Open says which partitions the task has from now on, besides those that it has.
	Open(ctx context.Context, partitions []TopicPartition) error
	// Close says which it has no longer. PreCommit is called before, unless they are lost already.
	Close(ctx context.Context, partitions []TopicPartition) error
}

// Flusher is a SinkTask whose Put may return before all is written.
type Flusher interface {
	// Flush returns when everything that was put is written. Offsets are those after what was put, by original partitions.
	Flush(ctx context.Context, offsets map[TopicPartition]int64) error
}

// PreCommitter is a SinkTask that itself says which offsets are safe.
type PreCommitter interface {
	// PreCommit returns, for partitions of offsets, up to where what was put is written. Partitions that it leaves out are not
	// committed. After an error the task goes back to the last offsets that are committed.
	PreCommit(ctx context.Context, offsets map[TopicPartition]int64) (map[TopicPartition]int64, error)
}

// SinkContext is what a SinkTask knows and wishes of its surroundings. Its methods may be called from any goroutine; what
// is wished is heard when the call under way, or the next one, has ended.
type SinkContext struct {
	name    string
	task    int
	reports bool

	mu     sync.Mutex
	wishes wishes
}

// wishes are what a task has asked for since its last answer.
type wishes struct {
	errant  []errant
	seek    map[TopicPartition]int64
	paused  map[TopicPartition]bool // false for those to resume
	timeout time.Duration
	commit  bool
}

type errant struct {
	TopicPartition
	offset int64
	fault  string
}

// Name is what users call the connector.
func (c *SinkContext) Name() string { return c.name }

// Task is the task's number among the connector's tasks, from 0.
func (c *SinkContext) Task() int { return c.task }

// ErrNoReports is what Report wraps when the configuration does not want records to be left out.
var ErrNoReports = errors.New("the connector's configuration neither tolerates errors nor names a dead letter queue")

// Report hands over a record that was put and cannot be written, at the latest before PreCommit or Flush returns for it. By the
// configuration it is logged, goes to the dead letter queue, or fails the task. It returns an error when it cannot be
// reported; the task then fails by returning that.
func (c *SinkContext) Report(r *SinkRecord, fault error) error {
	if !c.reports {
		return fmt.Errorf("record %s-%d@%d: %w (%w)", r.Original.Topic, r.Original.Partition, r.Offset, fault, ErrNoReports)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wishes.errant = append(c.wishes.errant, errant{r.Original, r.Offset, fault.Error()})
	return nil
}

// Seek has the records of a partition put from an offset on.
func (c *SinkContext) Seek(p TopicPartition, offset int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wishes.seek == nil {
		c.wishes.seek = map[TopicPartition]int64{}
	}
	c.wishes.seek[p] = offset
}

// Pause stops the records of partitions until Resume.
func (c *SinkContext) Pause(partitions ...TopicPartition) { c.setPaused(true, partitions) }

// Resume has the records of partitions put again.
func (c *SinkContext) Resume(partitions ...TopicPartition) { c.setPaused(false, partitions) }

func (c *SinkContext) setPaused(paused bool, partitions []TopicPartition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wishes.paused == nil {
		c.wishes.paused = map[TopicPartition]bool{}
	}
	for _, p := range partitions {
		c.wishes.paused[p] = paused
	}
}

// NextPut has Put called again after that time, with records or without.
func (c *SinkContext) NextPut(after time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wishes.timeout = after
}

// RequestCommit asks for a PreCommit soon.
func (c *SinkContext) RequestCommit() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wishes.commit = true
}

// take returns the wishes and forgets them.
func (c *SinkContext) take() wishes {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.wishes
	c.wishes = wishes{}
	return w
}
