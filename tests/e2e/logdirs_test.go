//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestADiskFillsUp gives one of three brokers a second log directory on a small disk of its own and writes until that is full:
// its replicas there go, and everything else goes on. On a larger and empty disk they come back.
func TestADiskFillsUp(t *testing.T) {
	b := startBrokers(t, 2)
	whole, small := filepath.Join(b.folder(3), "whole"), filepath.Join(b.folder(3), "small")
	mount(t, small, "6m")
	startThird := func() {
		b.processes[3] = start(t, "cauce-broker", "--listen", "127.0.0.1:0", "--data-dir", b.folder(3), "--set", "node.id=3",
			"--set", "bus.servers=nats://"+b.bus, "--set", "log.dirs="+whole+","+small)
	}
	startThird()
	client, err := kgo.NewClient(kgo.SeedBrokers(b.kafka...), kgo.MetadataMinAge(50*time.Millisecond), kgo.ProducerLinger(0),
		kgo.RecordRetries(1<<30), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	topics := []string{"a", "b", "c", "d"} // of one partition each, two of them on the small disk
	two, size := "2", "1048576"
	eventually(t, "creating topics", func(ctx context.Context) error {
		created, err := admin.CreateTopics(ctx, 1, 3, map[string]*string{"min.insync.replicas": &two, "segment.bytes": &size}, topics...)
		for _, topic := range topics {
			if e := created[topic].Err; err == nil && !errors.Is(e, kerr.TopicAlreadyExists) {
				err = e
			}
		}
		return err
	})
	inSync := func(topic string, want ...int32) {
		t.Helper()
		eventually(t, topic+" in sync", func(ctx context.Context) error {
			p, err := partition(ctx, admin, topic)
			if slices.Sort(p.ISR); err == nil && !slices.Equal(p.ISR, want) {
				err = fmt.Errorf("in sync are %v, want %v, offline are %v", p.ISR, want, p.OfflineReplicas)
			}
			return err
		})
	}
	for _, topic := range topics {
		inSync(topic, 1, 2, 3)
	}
	onSmall := func(topic string) bool {
		_, err := os.Stat(filepath.Join(small, topic+"-0"))
		return err == nil
	}
	affected := slices.DeleteFunc(slices.Clone(topics), func(topic string) bool { return !onSmall(topic) })
	if len(affected) != 2 {
		t.Fatalf("on the small disk are %v", affected)
	}
	value := bytes.Repeat([]byte("x"), 100<<10)
	for range 60 { // of each topic as much as the small disk has
		for _, topic := range topics {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if err := client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: value}).FirstErr(); err != nil {
				t.Fatalf("write to %s: %v", topic, err)
			}
			cancel()
		}
	}
	for _, topic := range topics {
		if slices.Contains(affected, topic) {
			inSync(topic, 1, 2)
		} else {
			inSync(topic, 1, 2, 3)
		}
		p, err := partition(t.Context(), admin, topic)
		if offline := slices.Contains(p.OfflineReplicas, 3); err != nil || offline != slices.Contains(affected, topic) {
			t.Errorf("%s: offline are %v (%v)", topic, p.OfflineReplicas, err)
		}
	}
	dirs, err := admin.DescribeBrokerLogDirs(t.Context(), 3, nil)
	if err != nil || !errors.Is(dirs[small].Err, kerr.KafkaStorageError) || dirs[whole].Err != nil {
		t.Errorf("log directories: %v, %v (%v)", dirs[small].Err, dirs[whole].Err, err)
	}
	b.processes[3].stop(t)
	if err := syscall.Unmount(small, 0); err != nil {
		t.Fatal(err)
	}
	mount(t, small, "64m")
	startThird()
	for _, topic := range topics {
		inSync(topic, 1, 2, 3)
		want := b.segments(t, 1, topic+"-0")
		eventually(t, "the replicas have the same bytes", func(context.Context) error {
			if got := b.segments(t, 3, topic+"-0"); !bytes.Equal(got, want) {
				return fmt.Errorf("%s: node 3 has %d bytes, node 1 %d", topic, len(got), len(want))
			}
			return nil
		})
	}
	for _, p := range b.processes {
		p.stop(t)
	}
	b.controller.stop(t)
}

// mount puts a disk in memory at path, until the test ends.
func mount(t *testing.T, path, size string) {
	t.Helper()
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	err := syscall.Mount("tmpfs", path, "tmpfs", 0, "size="+size)
	if errors.Is(err, syscall.EPERM) {
		t.Skip("only root mounts disks")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(path, syscall.MNT_DETACH) })
}
