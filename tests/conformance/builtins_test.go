//go:build conformance

package conformance

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/tests/conformance/internal/client"
	"github.com/cauce-stream/cauce/tests/conformance/internal/tool"
	"github.com/cauce-stream/cauce/tests/conformance/internal/wire"
	"github.com/cauce-stream/cauce/tests/conformance/internal/workload"
)

// builtins are the commands of scripts that are no tools of Kafka's: they bring about what the tools then look at.
var builtins = map[string]func(*testing.T, []string) tool.Result{
	"seed":          seed,
	"seed-segments": seedSegments,
	"seed-codecs":   seedCodecs,
	"write-json":    writeFile,
	"list":          listFiles,
	"join":          joinGroup,
	"transaction":   transact,
	"hang":          hang,
}

// seedRecords makes records with fixed keys, values of at least valueBytes bytes, and timestamps a second apart.
func seedRecords(from, n, valueBytes int) []wire.Record {
	out := make([]wire.Record, n)
	for i := range out {
		value := fmt.Appendf(nil, "value %d", from+i)
		out[i] = wire.Record{
			TimestampMs: workload.BaseTimestampMs + 1000*int64(from+i),
			Key:         fmt.Appendf(nil, "k%d", from+i),
			Value:       append(value, bytes.Repeat([]byte("."), max(0, valueBytes-len(value)))...),
		}
	}
	return out
}

// seed TOPIC PARTITION BATCHES writes batches of ten records.
func seed(t *testing.T, args []string) tool.Result {
	t.Helper()
	c, topic, partition := target(t, args)
	for b := range number(t, args[2]) {
		appendTo(t, c, topic, partition, wire.Batch{Records: seedRecords(10*b, 10, 0)})
	}
	return tool.Result{}
}

// seedSegments TOPIC PARTITION BATCHES writes batches of an idempotent producer with 100 records, 100 KB each.
func seedSegments(t *testing.T, args []string) tool.Result {
	t.Helper()
	c, topic, partition := target(t, args)
	producer := newProducer(t, under)
	for b := range number(t, args[2]) {
		appendTo(t, c, topic, partition, wire.Batch{
			Records:  seedRecords(100*b, 100, 1000),
			Producer: &wire.Producer{ID: producer, Sequence: int32(100 * b)},
		})
	}
	return tool.Result{}
}

// seedCodecs TOPIC PARTITION writes one batch in every codec.
func seedCodecs(t *testing.T, args []string) tool.Result {
	t.Helper()
	c, topic, partition := target(t, args)
	for i := range client.Codecs {
		batch := wire.Batch{Records: seedRecords(10*i, 4, 100), Codec: codecs[i]}
		batch.Records[0].Headers = []kmsg.Header{{Key: "h", Value: []byte("v")}, {Key: "h", Value: nil}}
		batch.Records[1].Key = nil
		batch.Records[2].Value = nil
		batch.Records[3].Key, batch.Records[3].Value = []byte{}, []byte{}
		appendTo(t, c, topic, partition, batch)
	}
	return tool.Result{}
}

var codecs = []kgo.CompressionCodec{
	kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
}

// writeFile PATH TEXT writes a file that a tool takes as an argument.
func writeFile(t *testing.T, args []string) tool.Result {
	t.Helper()
	if err := os.WriteFile(args[0], []byte(args[1]), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(args[0]) })
	return tool.Result{}
}

// listFiles FOLDER prints the names of the files in a folder.
func listFiles(t *testing.T, args []string) tool.Result {
	t.Helper()
	entries, err := os.ReadDir(args[0])
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, e := range entries {
		out.WriteString(e.Name() + "\n")
	}
	return tool.Result{Stdout: out.String()}
}

// joinGroup GROUP TOPIC classic|consumer has a member, of client id "member", in a group until the script ends.
func joinGroup(t *testing.T, args []string) tool.Result {
	t.Helper()
	assigned := make(chan struct{}, 1)
	opts := []kgo.Opt{
		kgo.SeedBrokers(under.Bootstrap), kgo.ConsumerGroup(args[0]), kgo.ConsumeTopics(args[1]), kgo.ClientID("member"),
		kgo.DisableAutoCommit(), kgo.Balancers(kgo.RangeBalancer()),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, got map[string][]int32) {
			if len(got) > 0 {
				assigned <- struct{}{}
			}
		}),
	}
	if args[2] == "consumer" {
		opts = append(opts, kgo.ServerSideBalancer())
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	select {
	case <-assigned:
	case <-time.After(time.Minute):
		t.Fatalf("the member of %s was assigned nothing", args[0])
	}
	return tool.Result{}
}

// transact ID TOPIC PARTITION commit|abort|open writes a record in a transaction, and returns once that has ended, or leaves it open
// until the script ends.
func transact(t *testing.T, args []string) tool.Result {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(under.Bootstrap), kgo.TransactionalID(args[0]), kgo.TransactionTimeout(5*time.Minute),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	record := &kgo.Record{Topic: args[1], Partition: int32(number(t, args[2])), Value: []byte(args[0])}
	if err := cl.ProduceSync(ctx, record).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if args[3] == "open" {
		return tool.Result{}
	}
	if err := cl.EndTransaction(ctx, args[3] == "commit"); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		described, err := kadm.NewClient(cl).DescribeTransactions(ctx, args[0])
		if state := described[args[0]].State; err == nil && strings.HasPrefix(state, "Complete") {
			return tool.Result{}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s ends in no time: %+v, %v", args[0], described, err)
		}
	}
}

// hang TOPIC PARTITION writes a record in a transaction that no coordinator knows of, once the leader lets it.
func hang(t *testing.T, args []string) tool.Result {
	t.Helper()
	c, topic, partition := target(t, args)
	const transactional = 0x10
	batch := wire.Batch{Records: seedRecords(0, 1, 0), Attributes: transactional, Producer: &wire.Producer{ID: newProducer(t, under)}}
	req, deadline := wire.Produce(topic, partition, batch.Encode()), time.Now().Add(time.Minute)
	req.TransactionID = kmsg.StringPtr("hung-" + run)
	for {
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		code := res.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode
		if code == 0 {
			return tool.Result{}
		}
		if time.Now().After(deadline) {
			t.Fatalf("the write is still verified: %v", kerr.ErrorForCode(code))
		}
	}
}

func target(t *testing.T, args []string) (c *wire.Conn, topic string, partition int32) {
	t.Helper()
	c = dial(t)
	awaitTopic(t, c, args[0])
	return c, args[0], int32(number(t, args[1]))
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func appendTo(t *testing.T, c *wire.Conn, topic string, partition int32, batch wire.Batch) {
	t.Helper()
	if _, err := c.Append(topic, partition, batch.Encode()); err != nil {
		t.Fatalf("append to %s-%d: %v", topic, partition, err)
	}
}
