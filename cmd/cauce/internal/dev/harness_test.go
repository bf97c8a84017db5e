package dev

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/libs/kafka/configkeys"

	"github.com/cauce-stream/cauce/libs/config"
)

// startLimit is far beyond what starting or stopping takes: reaching it means that something hangs.
const startLimit = time.Minute

// cluster is a running dev in this process.
type cluster struct {
	Ready
	t     *testing.T
	stop  context.CancelFunc
	ended chan error
}

func values(t *testing.T, dir string, pairs ...string) configkeys.Values {
	t.Helper()
	all := map[string]string{
		"data.dir": dir, "listeners": "PLAINTEXT://127.0.0.1:0", "admin.listener": "127.0.0.1:0", "log.level": "error", "connect.enable": "false",
	}
	for i := 0; i < len(pairs); i += 2 {
		all[pairs[i]] = pairs[i+1]
	}
	v, err := config.FromMap(configkeys.Broker(), all)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func start(t *testing.T, v configkeys.Values) *cluster {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	c := &cluster{t: t, stop: stop, ended: make(chan error, 1)}
	serves := make(chan Ready, 1)
	go func() { c.ended <- Run(ctx, v, func(r Ready) { serves <- r }) }()
	select {
	case c.Ready = <-serves:
	case err := <-c.ended:
		stop()
		t.Fatalf("dev ended before it served: %v", err)
	case <-time.After(startLimit):
		t.Fatal("dev does not get ready")
	}
	t.Cleanup(c.close)
	return c
}

// close stops the cluster in order; a second call does nothing.
func (c *cluster) close() {
	c.t.Helper()
	if c.ended == nil {
		return
	}
	c.stop()
	select {
	case err := <-c.ended:
		if err != nil {
			c.t.Errorf("dev ended with %v", err)
		}
	case <-time.After(startLimit):
		c.t.Fatal("dev does not end")
	}
	c.ended = nil
}

func (c *cluster) client(options ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.Bootstrap), kgo.MetadataMinAge(10 * time.Millisecond)}, options...)...)
	if err != nil {
		c.t.Fatal(err)
	}
	return client
}

func (c *cluster) createTopic(name string, partitions int32, configs map[string]*string) {
	c.t.Helper()
	client := c.client()
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopic(c.t.Context(), partitions, 1, configs, name); err != nil {
		c.t.Fatal(err)
	}
}

// produce writes n records and waits for all of them to be acknowledged.
func (c *cluster) produce(topic string, n int, value func(i int) []byte, options ...kgo.Opt) {
	c.t.Helper()
	client := c.client(append(options, kgo.DefaultProduceTopic(topic))...)
	defer client.Close()
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = kgo.SliceRecord(value(i))
	}
	if err := client.ProduceSync(c.t.Context(), records...).FirstErr(); err != nil {
		c.t.Fatal(err)
	}
}

// consume reads n records from the beginning and returns how often each value came.
func (c *cluster) consume(topic string, n int) map[string]int {
	c.t.Helper()
	client := c.client(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer client.Close()
	ctx, cancel := context.WithTimeout(c.t.Context(), startLimit)
	defer cancel()
	seen := make(map[string]int)
	for total := 0; total < n; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			c.t.Fatalf("after %d of %d records: %v", total, n, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			seen[string(r.Value)]++
			total++
		})
	}
	return seen
}
