//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/libs/testport"
)

// brokers are several broker processes of one controller, by node id.
type brokers struct {
	*cluster
	processes map[int32]*program
	addresses map[int32]string
}

func startBrokers(t *testing.T, n int32) *brokers {
	t.Helper()
	b := &brokers{cluster: newCluster(t), processes: map[int32]*program{}, addresses: map[int32]string{}}
	b.startController(t)
	for id := int32(1); id <= n; id++ {
		b.addresses[id] = testport.Address(t)
		b.kafka = append(b.kafka, b.addresses[id])
		b.start(t, id)
	}
	return b
}

func (b *brokers) start(t *testing.T, id int32) {
	t.Helper()
	b.processes[id] = start(t, "cauce-broker", "--listen", b.addresses[id], "--data-dir", b.folder(id),
		"--set", fmt.Sprint("node.id=", id), "--set", "bus.servers=nats://"+b.bus)
}

func (b *brokers) folder(id int32) string { return filepath.Join(b.dir, fmt.Sprint("broker-", id)) }

// segments are the bytes of a partition on a node.
func (b *brokers) segments(t *testing.T, id int32, partition string) []byte {
	t.Helper()
	var names []string
	err := filepath.WalkDir(b.folder(id), func(path string, _ os.DirEntry, err error) error {
		if filepath.Base(filepath.Dir(path)) == partition && filepath.Ext(path) == ".log" {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	var all []byte
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, content...)
	}
	return all
}

// partition finds out about partition 0 of a topic.
func partition(ctx context.Context, admin *kadm.Client, topic string) (kadm.PartitionDetail, error) {
	topics, err := admin.ListTopics(ctx, topic)
	if err != nil {
		return kadm.PartitionDetail{}, err
	}
	p, ok := topics[topic].Partitions[0]
	if !ok {
		return p, fmt.Errorf("%s is not there", topic)
	}
	return p, p.Err
}

// createOrders makes a topic of one partition, of whose replicas two must be in sync.
func createOrders(t *testing.T, admin *kadm.Client, replicas int16) {
	t.Helper()
	two := "2"
	eventually(t, "creating orders", func(ctx context.Context) error {
		created, err := admin.CreateTopics(ctx, 1, replicas, map[string]*string{"min.insync.replicas": &two}, "orders")
		if err == nil {
			err = created["orders"].Err
		}
		return err
	})
}

// failoverLimit is from the kill of a leader to the next acknowledgement. The first kill meets nodes that have just come.
const failoverLimit = 3 * time.Second

// TestLeadersDieUnderLoad kills the leader of a partition three times while a producer with acks=all goes on: nothing that was
// acknowledged is lost, and in the end the replicas have the same bytes.
func TestLeadersDieUnderLoad(t *testing.T) {
	b := startBrokers(t, 3)
	client, err := kgo.NewClient(kgo.SeedBrokers(b.kafka...), kgo.DefaultProduceTopic("orders"),
		kgo.MetadataMinAge(50*time.Millisecond), kgo.ProducerLinger(0), kgo.RecordRetries(1<<30))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	createOrders(t, admin, 3)

	total := 0
	produceSome := func(n int) {
		produce(t, client, "orders", total, total+n)
		total += n
	}
	allInSync := func() {
		eventually(t, "three replicas in sync", func(ctx context.Context) error {
			p, err := partition(ctx, admin, "orders")
			if err == nil && len(p.ISR) != 3 {
				err = fmt.Errorf("in sync are %v", p.ISR)
			}
			return err
		})
	}
	for range 3 {
		produceSome(200)
		p, err := partition(t.Context(), admin, "orders")
		if err != nil {
			t.Fatal(err)
		}
		killed := time.Now()
		b.processes[p.Leader].kill(t)
		produceSome(1)
		took := time.Since(killed)
		t.Logf("acknowledged %v after node %d was killed", took.Round(time.Millisecond), p.Leader)
		if took > failoverLimit {
			t.Errorf("acknowledged %v after node %d was killed, want at most %v", took, p.Leader, failoverLimit)
		}
		produceSome(200)
		b.start(t, p.Leader)
		allInSync()
	}
	produceSome(1)
	consume(t, b.kafka, "orders", total)
	want := b.segments(t, 1, "orders-0")
	for id := int32(2); id <= 3; id++ {
		eventually(t, "replicas have the same bytes", func(context.Context) error {
			if got := b.segments(t, id, "orders-0"); !bytes.Equal(got, want) {
				return fmt.Errorf("node %d has %d bytes, node 1 %d", id, len(got), len(want))
			}
			return nil
		})
	}
	for _, p := range b.processes {
		p.stop(t)
	}
	b.controller.stop(t)
}
