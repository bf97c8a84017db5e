package dev

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestLagIsAMetric has one group without lag, one that commits nothing while records come, and one behind an open transaction.
func TestLagIsAMetric(t *testing.T) {
	c := start(t, values(t, t.TempDir(), "group.lag.interval.ms", "50", "offsets.topic.num.partitions", "4", "offsets.topic.replication.factor", "1",
		"transaction.state.log.replication.factor", "1", "transaction.state.log.min.isr", "1"))
	c.createTopic("orders", 1, nil)
	c.createTopic("payments", 1, nil)
	value := func(int) []byte { return []byte("v") }
	c.produce("orders", 10, value)
	c.produce("payments", 10, value)
	open := c.client(kgo.TransactionalID("hangs"), kgo.DefaultProduceTopic("payments"))
	defer open.Close()
	if err := open.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := open.ProduceSync(t.Context(), kgo.StringRecord("unseen")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	client := c.client()
	defer client.Close()
	admin := kadm.NewClient(client)
	for group, at := range map[string]kadm.Offset{"well": {Topic: "payments", At: 11}, "stalls": {Topic: "orders", At: 4}, "waits": {Topic: "payments", At: 10}} {
		if err := admin.CommitAllOffsets(t.Context(), group, kadm.OffsetsFromRecords(kgo.Record{Topic: at.Topic, Offset: at.At - 1, LeaderEpoch: -1})); err != nil {
			t.Fatal(err)
		}
	}
	wants := []string{
		`cauce_consumergroup_status{consumergroup="well",status="OK"} 1`,
		`cauce_consumergroup_status{consumergroup="stalls",status="STALLED"} 1`,
		`cauce_consumergroup_status{consumergroup="waits",status="HUNG_TXN"} 1`,
		`cauce_consumergroup_partition_status{consumergroup="waits",partition="0",status="HUNG_TXN",topic="payments"} 1`,
		`kafka_consumergroup_current_offset{consumergroup="stalls",partition="0",topic="orders"} 4`,
		`kafka_consumergroup_lag{consumergroup="waits",partition="0",topic="payments"} 1`,
		`kafka_consumergroup_lag_seconds{consumergroup="well",partition="0",topic="payments"} 0`,
		`kafka_consumergroup_members{consumergroup="well"} 0`,
		`cauce_consumergroup_unwatched 0`,
	}
	limit := time.Now().Add(startLimit)
	for len(wants) > 0 {
		c.produce("orders", 1, value)
		metrics := c.metrics()
		if !strings.Contains(metrics, wants[0]+"\n") {
			if time.Now().After(limit) {
				t.Fatalf("no %s in\n%s", wants[0], consumerGroups(metrics))
			}
			continue
		}
		wants = wants[1:]
	}
}

// TestWhyNamesTheTransactionThatHoldsAGroup has a consumer of committed records wait behind an open transaction.
func TestWhyNamesTheTransactionThatHoldsAGroup(t *testing.T) {
	c := start(t, values(t, t.TempDir(), "offsets.topic.num.partitions", "4", "offsets.topic.replication.factor", "1",
		"transaction.state.log.replication.factor", "1", "transaction.state.log.min.isr", "1", "group.initial.rebalance.delay.ms", "0"))
	c.createTopic("payments", 1, nil)
	c.produce("payments", 10, func(int) []byte { return []byte("v") })
	open := c.client(kgo.TransactionalID("hangs"), kgo.DefaultProduceTopic("payments"))
	defer open.Close()
	if err := open.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := open.ProduceSync(t.Context(), kgo.StringRecord("unseen")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	member := c.client(kgo.ConsumerGroup("shop"), kgo.ConsumeTopics("payments"), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.DisableAutoCommit())
	defer member.Close()
	for seen := 0; seen < 10; {
		fetches := member.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		seen += fetches.NumRecords()
	}
	if err := member.CommitUncommittedOffsets(t.Context()); err != nil {
		t.Fatal(err)
	}
	out := c.command("group", "why", "shop", "--interval", "200ms")
	for _, want := range []string{
		"shop is HUNG_TXN\n", "payments:0", "the last stable offset 10, before 1 more", `transactional id "hangs" (producer `, "try: cauce txn abort hangs\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	if out := c.command("txn", "abort", "hangs"); !strings.Contains(out, "aborted") {
		t.Errorf("what it says to try does: %s", out)
	}
}

// command runs this program's command line against the cluster and returns what it prints.
func (c *cluster) command(args ...string) string {
	c.t.Helper()
	executable, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.CommandContext(c.t.Context(), executable, append(args, "-b", c.Bootstrap)...)
	cmd.Env = append(os.Environ(), "DEV_TEST_AS_PROGRAM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.t.Fatalf("%v: %v: %s", args, err, out)
	}
	return string(out)
}

// consumerGroups are the series about groups.
func consumerGroups(metrics string) string {
	var b strings.Builder
	for line := range strings.Lines(metrics) {
		if strings.Contains(line, "_consumergroup_") && !strings.HasPrefix(line, "#") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// metrics are what the admin server tells.
func (c *cluster) metrics() string {
	c.t.Helper()
	resp, err := http.Get("http://" + c.Admin + "/metrics")
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return string(body)
}
