// Command anatomy shows what a partition is on disk: what its folder has before and after its segments become small, what a segment
// is made of, how an offset is found in it, and that all replicas have the same bytes. It runs a cluster of its own.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/tests/lab/internal/numbered"
)

const (
	topic      = "lab"
	partitions = 6
	valueSize  = 1024
	// segmentBytes is the smallest that Kafka takes.
	segmentBytes = "1048576"
)

func main() {
	records := flag.Int("records", 100_000, "how many each of the two rounds produces")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *records)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "anatomy:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, records int) error {
	c, down, err := numbered.Up(ctx)
	if err != nil {
		return err
	}
	defer down()
	if err := c.CreateTopic(ctx, topic, partitions, nil); err != nil {
		return err
	}
	if err := produce(ctx, c, records, kgo.NoCompression()); err != nil {
		return err
	}
	p, err := c.Leader(ctx, topic)
	if err != nil {
		return err
	}
	lead := folderOf(c, p.Leader)
	fmt.Printf("%s-0 on node %d, which leads it, after %d records of %d bytes:\n\n", topic, p.Leader, records, valueSize)
	if err := lead.list(); err != nil {
		return err
	}
	if err := setSegmentBytes(ctx, c); err != nil {
		return err
	}
	if err := produce(ctx, c, records, kgo.ZstdCompression()); err != nil {
		return err
	}
	fmt.Printf("\nsegment.bytes=%s is set for the topic, and as many records were produced with zstd:\n\n", segmentBytes)
	segments, err := lead.segments(ctx)
	if err != nil {
		return err
	}
	printSegments(segments)
	ends, err := c.Admin.ListEndOffsets(ctx, topic)
	if err = cmp.Or(err, ends.Error()); err != nil {
		return err
	}
	end := ends[topic][0].Offset
	if err := check(segments, end); err != nil {
		return err
	}
	fmt.Println()
	if err := lead.find(ctx, segments, end/4); err != nil {
		return err
	}
	return compare(ctx, c, p)
}

// words are what records are made of: a text that can be compressed.
var words = strings.Fields("the river leaves its bed when rain comes late and nobody has cleared what winter brought down from the hills")

// value is a text of words in any order.
func value() []byte {
	text := make([]byte, 0, valueSize+16)
	for len(text) < valueSize {
		text = append(append(text, words[rand.IntN(len(words))]...), ' ')
	}
	return text[:valueSize]
}

// produce writes records to all partitions in turn.
func produce(ctx context.Context, c *numbered.Cluster, records int, codec kgo.CompressionCodec) error {
	cl, err := c.Producer(topic, kgo.ProducerBatchCompression(codec))
	if err != nil {
		return err
	}
	defer cl.Close()
	failed := make(chan error, 1) // the first failure; there is room for one
	for range records {
		cl.Produce(ctx, &kgo.Record{Value: value()}, func(_ *kgo.Record, err error) {
			if err != nil {
				select {
				case failed <- err:
				default:
				}
			}
		})
	}
	if err := cl.Flush(ctx); err != nil {
		return err
	}
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

func setSegmentBytes(ctx context.Context, c *numbered.Cluster) error {
	value := segmentBytes
	answers, err := c.Admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "segment.bytes", Value: &value}}, topic)
	for _, a := range answers {
		err = cmp.Or(err, a.Err)
	}
	return err
}

// check holds the segments against where the log ends.
func check(segments []segment, end int64) error {
	next := int64(0)
	for _, s := range segments {
		if s.first != next {
			return fmt.Errorf("the segment %d follows one that ends before %d", s.first, next)
		}
		next += s.records
	}
	if next != end {
		return fmt.Errorf("the segments have %d records, and the partition ends at %d", next, end)
	}
	return nil
}

// compare has all replicas hold the same bytes. They may have cut them into segments elsewhere.
func compare(ctx context.Context, c *numbered.Cluster, p kadm.PartitionDetail) error {
	var sums []string
	err := numbered.Await(ctx, "the replicas' bytes", func(context.Context) error {
		sums = nil
		for _, id := range p.Replicas {
			sum, err := folderOf(c, id).sum()
			if err != nil {
				return err
			}
			sums = append(sums, sum)
		}
		for i := range sums {
			if sums[i] != sums[0] {
				return fmt.Errorf("those of nodes %d and %d differ", p.Replicas[0], p.Replicas[i])
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Printf("nodes %v have the same bytes: the segments, one behind the other, have the SHA-256 %s…\n", p.Replicas, sums[0][:12])
	return nil
}

func clock(ms int64) string { return time.UnixMilli(ms).UTC().Format("15:04:05.000") }
