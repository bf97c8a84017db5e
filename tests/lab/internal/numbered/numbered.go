// Package numbered has what the experiments on loss share: a cluster to break, and records with numbers, so that those that are
// missing in the end can be told.
package numbered

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/tests/localcluster"
	"github.com/cauce-stream/cauce/tests/retry"
)

// Cluster is one of three controllers and three brokers, in a folder of its own.
type Cluster struct {
	*localcluster.Cluster
	Admin     *kadm.Client
	Bootstrap []string
	client    *kgo.Client
}

// basePort is where the cluster's ports begin on machines without network namespaces.
const basePort = 21092

// Up brings a cluster up; the function returned takes it down and removes it.
func Up(ctx context.Context) (c *Cluster, down func(), err error) {
	dir, err := os.MkdirTemp("", "lab")
	if err != nil {
		return nil, nil, err
	}
	remove := func() { _ = os.RemoveAll(dir) } // what is left is in the system's folder for such
	running, err := localcluster.Up(ctx, dir, "--controllers", "3", "--brokers", "3", "--groupcoords", "0", "--base-port", strconv.Itoa(basePort))
	if err != nil {
		remove()
		return nil, nil, err
	}
	c = &Cluster{Cluster: running}
	down = func() {
		if c.client != nil {
			c.client.Close()
		}
		if err := running.Down(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		remove()
	}
	brokers, err := c.Of(ctx, "broker")
	if err == nil {
		for _, n := range brokers {
			c.Bootstrap = append(c.Bootstrap, n.Bootstrap)
		}
		c.client, err = kgo.NewClient(c.opts()...)
	}
	if err != nil {
		down()
		return nil, nil, err
	}
	c.Admin = kadm.NewClient(c.client)
	return c, down, nil
}

func (c *Cluster) opts(more ...kgo.Opt) []kgo.Opt {
	return append([]kgo.Opt{kgo.SeedBrokers(c.Bootstrap...), kgo.MetadataMinAge(50 * time.Millisecond), kgo.DialTimeout(2 * time.Second)}, more...)
}

// CreateTopic makes one with three replicas, and waits until all of them are in sync.
func (c *Cluster) CreateTopic(ctx context.Context, topic string, partitions int32, configs map[string]string) error {
	values := map[string]*string{}
	for key, value := range configs {
		values[key] = &value
	}
	if _, err := c.Admin.CreateTopic(ctx, partitions, 3, values, topic); err != nil {
		return err
	}
	return c.InSync(ctx, topic, 3)
}

// Partition tells of partition 0 of a topic. A node that was just started may not know it yet.
func (c *Cluster) Partition(ctx context.Context, topic string) (kadm.PartitionDetail, error) {
	topics, err := c.Admin.ListTopics(ctx, topic)
	if err != nil {
		return kadm.PartitionDetail{}, err
	}
	p, ok := topics[topic].Partitions[0]
	if !ok {
		return p, fmt.Errorf("nobody knows %s: %w", topic, topics[topic].Err)
	}
	return p, nil
}

// Leader waits until partition 0 of a topic is led, and tells of it.
func (c *Cluster) Leader(ctx context.Context, topic string) (p kadm.PartitionDetail, err error) {
	err = Await(ctx, "a leader of "+topic, func(ctx context.Context) error {
		p, err = c.Partition(ctx, topic)
		if err == nil && p.Leader < 0 {
			err = errors.New("there is none")
		}
		return err
	})
	return p, err
}

// InSync waits until as many replicas of each partition are in sync.
func (c *Cluster) InSync(ctx context.Context, topic string, replicas int) error {
	return Await(ctx, fmt.Sprintf("%d replicas in sync", replicas), func(ctx context.Context) error {
		topics, err := c.Admin.ListTopics(ctx, topic)
		if err != nil {
			return err
		}
		if err := topics[topic].Err; err != nil {
			return err
		}
		for _, p := range topics[topic].Partitions {
			if p.Leader < 0 || len(p.ISR) != replicas {
				return fmt.Errorf("partition %d is led by %d, in sync are %v", p.Partition, p.Leader, p.ISR)
			}
		}
		return nil
	})
}

// awaitTimeout bounds each wait.
const awaitTimeout = time.Minute

// Await tries until it works.
func Await(ctx context.Context, what string, try func(ctx context.Context) error) error {
	if err := retry.Until(ctx, awaitTimeout, try); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

const valueSize = 256

// Producer writes records 0, 1, 2… to all partitions of a topic in turn. opts say how.
func (c *Cluster) Producer(topic string, opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(c.opts(append([]kgo.Opt{kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.RoundRobinPartitioner())}, opts...)...)...)
}

// Record is the one with a number.
func Record(number int) *kgo.Record {
	value := make([]byte, valueSize)
	binary.BigEndian.PutUint64(value, uint64(number))
	return &kgo.Record{Value: value}
}

// Read returns how often each number is in a topic, up to where it ends now.
func (c *Cluster) Read(ctx context.Context, topic string) (times map[int]int, err error) {
	var ends kadm.ListedOffsets
	err = Await(ctx, "the ends of "+topic, func(ctx context.Context) (err error) { // a leader may have started just now
		ends, err = c.Admin.ListEndOffsets(ctx, topic)
		return cmp.Or(err, ends.Error())
	})
	if err != nil {
		return nil, err
	}
	want := int64(0)
	offsets := map[int32]kgo.Offset{}
	for p, end := range ends[topic] {
		want += end.Offset
		offsets[p] = kgo.NewOffset().At(0)
	}
	cl, err := kgo.NewClient(c.opts(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: offsets}))...)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, awaitTimeout)
	defer cancel()
	times = map[int]int{}
	for got := int64(0); got < want; {
		fetches := cl.PollFetches(ctx)
		if err := cmp.Or(ctx.Err(), fetches.Err()); err != nil {
			return nil, fmt.Errorf("after %d of %d records: %w", got, want, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			got++
			times[int(binary.BigEndian.Uint64(r.Value))]++
		})
	}
	return times, nil
}

// Process is that of a node, for what must happen at once.
func (c *Cluster) Process(ctx context.Context, id int32) (*os.Process, error) {
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		if n.ID == id && n.PID != 0 {
			return os.FindProcess(n.PID)
		}
	}
	return nil, fmt.Errorf("node %d does not run", id)
}

// Logged are the lines of a node's log that have a text, with the newest last.
func (c *Cluster) Logged(ctx context.Context, id int32, text string) (string, error) {
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return "", err
	}
	for _, n := range nodes {
		if n.ID != id {
			continue
		}
		out, err := exec.CommandContext(ctx, "grep", "-F", text, n.Log).Output()
		if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 1 {
			return "", nil // no such line
		}
		return string(out), err
	}
	return "", fmt.Errorf("there is no node %d", id)
}
