// Command partitions measures three controllers and three brokers as processes that have many partitions of three replicas: how long it
// takes to create them, what they weigh, and how long the cluster needs to be itself again after a broker died, came back, and was
// restarted in good order.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/tests/localcluster"
	"github.com/cauce-stream/cauce/tests/measure"
	"github.com/cauce-stream/cauce/tests/retry"
)

const (
	topic  = "many"
	within = 10 * time.Minute // bounds each step
)

// run is one cluster that is measured.
type run struct {
	cluster    *localcluster.Cluster
	client     *kgo.Client
	admin      *kadm.Client
	partitions int
}

func main() {
	partitions := flag.Int("partitions", 6667, "partitions, of three replicas each")
	port := flag.Int("port", 23092, "the first of the ports that are taken")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := measureCluster(ctx, *partitions, *port)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "partitions:", err)
		os.Exit(1)
	}
}

func measureCluster(ctx context.Context, partitions, port int) (err error) {
	dir, err := os.MkdirTemp("", "cauce-partitions-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c, err := localcluster.Up(ctx, filepath.Join(dir, "cluster"), "--controllers", "3", "--brokers", "3", "--base-port", strconv.Itoa(port), "--network", "loopback")
	if err != nil {
		return err
	}
	defer func() {
		if downErr := c.Down(); err == nil {
			err = downErr
		}
	}()
	client, err := kgo.NewClient(kgo.SeedBrokers(fmt.Sprint("127.0.0.1:", port)), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MetadataMinAge(200*time.Millisecond), kgo.MaxBufferedRecords(2*partitions))
	if err != nil {
		return err
	}
	defer client.Close()
	r := &run{cluster: c, client: client, admin: kadm.NewClient(client), partitions: partitions}
	return r.steps(ctx)
}

func (r *run) steps(ctx context.Context) error {
	if err := r.weigh(ctx, "empty"); err != nil {
		return err
	}
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"created: every partition is led and in sync", func(ctx context.Context) error {
			if _, err := r.admin.CreateTopic(ctx, int32(r.partitions), 3, nil, topic); err != nil {
				return err
			}
			return r.await(ctx, 3, -1)
		}},
		{"a record is written to each", r.write},
		{"broker 1 was killed: the others lead all", func(ctx context.Context) error { return r.then(ctx, "kill", 2, 1) }},
		{"a record is written to each", r.write},
		{"broker 1 was started: all are in sync", func(ctx context.Context) error { return r.then(ctx, "start", 3, -1) }},
		{"broker 1 was stopped: the others lead all", func(ctx context.Context) error { return r.then(ctx, "stop", 2, 1) }},
		{"broker 1 was started: all are in sync", func(ctx context.Context) error { return r.then(ctx, "start", 3, -1) }},
		{"a record is written to each", r.write},
	} {
		began := time.Now()
		stepCtx, cancel := context.WithTimeout(ctx, within)
		err := step.do(stepCtx)
		cancel()
		if err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Printf("%7.2f s  %s\n", time.Since(began).Seconds(), step.name)
	}
	return r.weigh(ctx, "at the end")
}

// then does a command to broker 1 and waits for what comes of it.
func (r *run) then(ctx context.Context, verb string, inSync int, gone int32) error {
	if err := r.cluster.On(ctx, verb, 1); err != nil {
		return err
	}
	return r.await(ctx, inSync, gone)
}

// await waits until every partition has so many replicas in sync and a leader other than gone.
func (r *run) await(ctx context.Context, inSync int, gone int32) error {
	return retry.Until(ctx, within, func(ctx context.Context) error {
		listed, err := r.admin.ListTopics(ctx, topic)
		if err != nil {
			return err
		}
		there := listed[topic].Partitions
		if len(there) != r.partitions {
			return fmt.Errorf("%d partitions are known (%w)", len(there), listed[topic].Err)
		}
		for _, p := range there {
			if p.Leader < 0 || p.Leader == gone || len(p.ISR) < inSync {
				return fmt.Errorf("partition %d is led by %d, in sync are %v", p.Partition, p.Leader, p.ISR)
			}
		}
		return nil
	})
}

// write has a record acknowledged by all replicas in sync in each partition.
func (r *run) write(ctx context.Context) error {
	failed := kgo.AbortingFirstErrPromise(r.client)
	for p := range int32(r.partitions) {
		r.client.Produce(ctx, &kgo.Record{Topic: topic, Partition: p, Value: []byte("a record")}, failed.Promise())
	}
	return failed.Err()
}

// weigh prints the resident memory of each node.
func (r *run) weigh(ctx context.Context, when string) error {
	nodes, err := r.cluster.Nodes(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("resident MiB, %s:", when)
	for _, n := range nodes {
		mib, err := measure.ResidentMiB(n.PID)
		if err != nil {
			return err
		}
		fmt.Printf("  %s %d: %.0f", n.Roles[0], n.ID, mib)
	}
	fmt.Println()
	return nil
}
