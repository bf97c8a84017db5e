package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
)

func TestWhatWasWrittenIsThereAfterARestart(t *testing.T) {
	v := values(t, t.TempDir())
	c := start(t, v)
	c.createTopic("orders", 3, map[string]*string{"retention.ms": kmsg.StringPtr("86400000")})
	value := func(i int) []byte { return fmt.Appendf(nil, "value %d %s", i, strings.Repeat("x", i%500)) }
	total := 0
	for _, codec := range []kgo.CompressionCodec{
		kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
	} {
		c.produce("orders", 200, value, kgo.ProducerBatchCompression(codec))
		total += 200
	}
	expect := func(times int) {
		t.Helper()
		seen := c.consume("orders", total)
		for i := range 200 {
			if n := seen[string(value(i))]; n != times {
				t.Fatalf("value %d came %d times, want %d", i, n, times)
			}
		}
	}
	expect(5)
	c.close()

	c = start(t, v)
	expect(5)
	c.produce("orders", 200, value)
	total += 200
	expect(6)
	client := c.client()
	defer client.Close()
	configs, err := kadm.NewClient(client).DescribeTopicConfigs(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	for _, config := range configs[0].Configs {
		if config.Key == "retention.ms" && config.MaybeValue() != "86400000" {
			t.Errorf("retention.ms is %s after the restart", config.MaybeValue())
		}
	}
}

func TestPartitionsLieInTheLogDirectory(t *testing.T) {
	v := values(t, t.TempDir())
	c := start(t, v)
	c.createTopic("orders", 2, nil)
	for _, name := range []string{"orders-0", "orders-1"} {
		if _, err := os.Stat(filepath.Join(configkeys.LogDirs(v)[0], name)); err != nil {
			t.Error(err)
		}
	}
}

func TestAdminServerTellsReadinessAndMetrics(t *testing.T) {
	c := start(t, values(t, t.TempDir()))
	for path, want := range map[string]string{"/readyz": "ok", "/healthz": "ok", "/metrics": "kafka_"} {
		resp, err := http.Get("http://" + c.Admin + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: %d, %v, %.200s; want it to contain %q", path, resp.StatusCode, err, body, want)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestConnectionLimitsChangeWhileANodeRuns lets an address have one connection, which those that are there outlive, and then more.
func TestConnectionLimitsChangeWhileANodeRuns(t *testing.T) {
	c := start(t, values(t, t.TempDir()))
	client := c.client()
	defer client.Close()
	admin := kadm.NewClient(client)
	limit := func(most string) {
		t.Helper()
		answers, err := admin.AlterBrokerConfigs(t.Context(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "max.connections.per.ip", Value: &most}})
		if err != nil || answers[0].Err != nil {
			t.Fatal(answers, err)
		}
	}
	// closed says whether a further connection is closed at once.
	closed := func() bool {
		t.Helper()
		conn, err := net.Dial("tcp", c.Bootstrap)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetReadDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		_, err = conn.Read(make([]byte, 1))
		return !errors.Is(err, os.ErrDeadlineExceeded)
	}
	limit("1")
	if !closed() {
		t.Error("more connections than max.connections.per.ip")
	}
	limit("100")
	if closed() {
		t.Error("a connection is closed that is within max.connections.per.ip")
	}
}

func TestTakenPortIsNamed(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	address := taken.Addr().String()
	for _, key := range []string{"listeners", "admin.listener"} {
		value := address
		if key == "listeners" {
			value = "PLAINTEXT://" + address
		}
		err := Run(t.Context(), values(t, t.TempDir(), key, value), func(Ready) { t.Errorf("%s: serves on a taken port", key) })
		if err == nil || !strings.Contains(err.Error(), address) {
			t.Errorf("%s: %v, want an error that names %s", key, err, address)
		}
	}
}

// TestStartsAndStopsLeakNothing compares the goroutines after the first run, which starts what a
// process has once, with those after some more.
func TestStartsAndStopsLeakNothing(t *testing.T) {
	v := values(t, t.TempDir())
	cycle := func() {
		c := start(t, v)
		c.createTopic(fmt.Sprint("topic-", time.Now().UnixNano()), 1, nil)
		c.close()
	}
	cycle()
	before := settled(func(int) bool { return false })
	for range 3 {
		cycle()
	}
	if after := settled(func(n int) bool { return n <= before }); after > before {
		var stacks strings.Builder
		pprof.Lookup("goroutine").WriteTo(&stacks, 1)
		t.Errorf("%d goroutines after the first run, %d after four:\n%s", before, after, stacks.String())
	}
}

// settled is the least number of goroutines within a moment, or the first that is as wanted.
func settled(wanted func(int) bool) int {
	least := runtime.NumGoroutine()
	for until := time.Now().Add(300 * time.Millisecond); !wanted(least) && time.Now().Before(until); runtime.Gosched() {
		least = min(least, runtime.NumGoroutine())
	}
	return least
}

// TestStopUnderLoadKeepsWhatWasAcknowledged stops the cluster while a producer sends as fast as it can.
func TestStopUnderLoadKeepsWhatWasAcknowledged(t *testing.T) {
	v := values(t, t.TempDir())
	c := start(t, v)
	c.createTopic("orders", 1, nil)
	client := c.client(kgo.DefaultProduceTopic("orders"))
	var acknowledged atomic.Int64
	enough := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	var producing sync.WaitGroup
	producing.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			client.Produce(ctx, kgo.StringRecord(strconv.Itoa(i)), func(_ *kgo.Record, err error) {
				if err == nil && acknowledged.Add(1) == 20_000 {
					close(enough)
				}
			})
		}
	})
	<-enough
	c.close()
	stop()
	producing.Wait()
	client.Close()

	c = start(t, v)
	n := int(acknowledged.Load())
	seen := c.consume("orders", n)
	for i := range n {
		if seen[strconv.Itoa(i)] != 1 {
			t.Fatalf("record %d of %d acknowledged ones is there %d times", i, n, seen[strconv.Itoa(i)])
		}
	}
}
