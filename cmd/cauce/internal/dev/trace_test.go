package dev

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/cauce-stream/cauce/libs/kafka/client"
	"github.com/cauce-stream/cauce/libs/process"
	"github.com/cauce-stream/cauce/libs/record"
	"github.com/cauce-stream/cauce/libs/telemetry"
	"github.com/cauce-stream/cauce/libs/tracing"
	"github.com/cauce-stream/cauce/libs/tracing/tracingtest"
)

// ofTrace are the spans of a trace by id.
func ofTrace(spans []sdktrace.ReadOnlySpan, id trace.TraceID) map[trace.SpanID]sdktrace.ReadOnlySpan {
	found := map[trace.SpanID]sdktrace.ReadOnlySpan{}
	for _, s := range spans {
		if s.SpanContext().TraceID() == id {
			found[s.SpanContext().SpanID()] = s
		}
	}
	return found
}

// tracedNode is a running dev whose spans the test sees.
type tracedNode struct {
	*cluster
	tracer *tracing.Tracer
	spans  *tracingtest.Spans
	pool   *client.Pool // hands the span of its context on
}

func startTraced(t *testing.T, s tracing.Sampling, pairs ...string) *tracedNode {
	t.Helper()
	n := &tracedNode{pool: client.New(client.Config{ClientID: "shop"})}
	n.tracer, n.spans = tracingtest.New(s)
	env := process.Env{Values: values(t, t.TempDir(), pairs...), Telemetry: &telemetry.Telemetry{
		Log: zaptest.NewLogger(t, zaptest.Level(zap.ErrorLevel)), Metrics: prometheus.NewRegistry(), Tracer: n.tracer, Tracing: n.tracer}}
	ctx, stop := context.WithCancel(context.Background())
	n.cluster = &cluster{t: t, stop: stop, ended: make(chan error, 1)}
	serves := make(chan Ready, 1)
	go func() { n.ended <- run(ctx, env, func(r Ready) { serves <- r }) }()
	select {
	case n.Ready = <-serves:
	case err := <-n.ended:
		stop()
		t.Fatalf("dev ended before it served: %v", err)
	case <-time.After(startLimit):
		t.Fatal("dev does not get ready")
	}
	t.Cleanup(n.close)
	t.Cleanup(n.pool.Close)
	return n
}

// sampled begins a trace that is kept: that of a client that samples.
func (n *tracedNode) sampled() (trace.SpanContext, context.Context) {
	root := n.tracer.Begin(trace.SpanContext{}).WithTraceFlags(trace.FlagsSampled)
	return root, trace.ContextWithSpanContext(n.t.Context(), root)
}

func call[R kmsg.Response](ctx context.Context, n *tracedNode, q kmsg.Request) R {
	n.t.Helper()
	resp, err := n.pool.Do(ctx, n.Bootstrap, q)
	if err != nil {
		n.t.Fatalf("%T: %v", q, err)
	}
	return resp.(R)
}

// await waits until a span of the trace has these names on its way up to the root, its own first.
func (n *tracedNode) await(root trace.SpanContext, path ...string) {
	n.t.Helper()
	limit := time.After(startLimit)
	for {
		all, changed := n.spans.Until()
		spans := ofTrace(all, root.TraceID())
		var paths []string
		for _, s := range spans {
			up := pathOf(spans, s, root)
			if slices.Equal(up, append(slices.Clone(path), "root")) {
				return
			}
			paths = append(paths, fmt.Sprint(up))
		}
		select {
		case <-changed:
		case <-limit:
			slices.Sort(paths)
			for _, p := range paths {
				n.t.Log(p)
			}
			n.t.Fatalf("no span %v", path)
		}
	}
}

// pathOf are the names of a span and of those above it.
func pathOf(spans map[trace.SpanID]sdktrace.ReadOnlySpan, s sdktrace.ReadOnlySpan, root trace.SpanContext) []string {
	var up []string
	for s != nil {
		up = append(up, s.Name())
		if s.Parent().SpanID() == root.SpanID() {
			return append(up, "root")
		}
		s = spans[s.Parent().SpanID()]
	}
	return append(up, "nowhere")
}

// pluginFolder has the test binary as a plugin in it.
func pluginFolder(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\nDEV_TEST_AS_PLUGIN=1 exec %s\n", self)
	if err := os.WriteFile(filepath.Join(folder, "first"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return folder
}

func createTopic(name string) *kmsg.CreateTopicsRequest {
	q := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 2, 1
	q.Topics, q.TimeoutMillis = append(q.Topics, topic), 30_000
	return q
}

func TestATopicsCreationIsOneTraceDownToTheNodesThatApplyIt(t *testing.T) {
	n := startTraced(t, tracing.Sampling{Rate: 0, SlowAfter: -1})
	root, ctx := n.sampled()
	if resp := call[*kmsg.CreateTopicsResponse](ctx, n, createTopic("orders")); resp.Topics[0].ErrorCode != 0 {
		t.Fatal(kerr.ErrorForCode(resp.Topics[0].ErrorCode))
	}
	const call = "cauce.controller.admin"
	n.await(root, "controller propose", call, call, "kafka.CreateTopics")
	n.await(root, "metadata apply", "controller commit", call, call, "kafka.CreateTopics")
}

// TestAnOrderIsOneTrace has a client produce an order, join a group with an assignor of its own, and consume, under one span.
func TestAnOrderIsOneTrace(t *testing.T) {
	n := startTraced(t, tracing.Sampling{Rate: 0, SlowAfter: -1}, "plugin.path", pluginFolder(t), "offsets.topic.num.partitions", "1", "offsets.topic.replication.factor", "1",
		"group.consumer.assignors", "first")
	created := call[*kmsg.CreateTopicsResponse](t.Context(), n, createTopic("orders"))
	n.awaitCoordinator("shoppers")

	root, ctx := n.sampled()
	builder := record.NewBuilder()
	builder.Append(time.Now().UnixMilli(), []byte("customer"), []byte("order"))
	batch, err := builder.AppendTo(nil, record.None, 0)
	if err != nil {
		t.Fatal(err)
	}
	produce := kmsg.NewPtrProduceRequest()
	produce.Acks, produce.TimeoutMillis = -1, 30_000
	produce.Topics = []kmsg.ProduceRequestTopic{{Topic: "orders", TopicID: created.Topics[0].TopicID,
		Partitions: []kmsg.ProduceRequestTopicPartition{{Records: batch}}}}
	if p := call[*kmsg.ProduceResponse](ctx, n, produce).Topics[0].Partitions[0]; p.ErrorCode != 0 {
		t.Fatal(kerr.ErrorForCode(p.ErrorCode))
	}
	joined := n.join(ctx, "shoppers", "orders")
	n.await(root, "append", "kafka.Produce")
	n.await(root, "group shard handle", "kafka.ConsumerGroupHeartbeat")
	n.await(root, "group shard commit", "kafka.ConsumerGroupHeartbeat")
	n.await(root, "plugin assignor first", "kafka.ConsumerGroupHeartbeat")
	n.await(root, "append", "kafka.Produce", "group shard append", "kafka.ConsumerGroupHeartbeat")

	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Group, commit.Generation, commit.MemberID = "shoppers", joined.MemberEpoch, *joined.MemberID
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic, topic.TopicID = "orders", created.Topics[0].TopicID
	partition := kmsg.NewOffsetCommitRequestTopicPartition()
	partition.Offset = 1
	topic.Partitions = append(topic.Partitions, partition)
	commit.Topics = append(commit.Topics, topic)
	if p := call[*kmsg.OffsetCommitResponse](ctx, n, commit).Topics[0].Partitions[0]; p.ErrorCode != 0 {
		t.Fatal(kerr.ErrorForCode(p.ErrorCode))
	}
	n.await(root, "append", "kafka.Produce", "group shard append", "kafka.OffsetCommit")

	n.close()
	all, _ := n.spans.Until()
	spans := ofTrace(all, root.TraceID())
	for _, s := range spans {
		if up := pathOf(spans, s, root); up[len(up)-1] != "root" {
			t.Errorf("%v is not below the client's span", up)
		}
	}
	all, _ = n.spans.Until()
	for _, s := range all { // beside what failed: a coordinator that was not there yet, for instance
		if s.SpanContext().TraceID() != root.TraceID() && s.Status().Description == "" {
			t.Errorf("span %s is kept, which nobody asked for", s.Name())
		}
	}
}

// awaitCoordinator returns once a group has its coordinator.
func (n *tracedNode) awaitCoordinator(group string) {
	n.t.Helper()
	for limit := time.Now().Add(startLimit); ; {
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.CoordinatorKeys = []string{group}
		call[*kmsg.FindCoordinatorResponse](n.t.Context(), n, find)
		q := kmsg.NewPtrOffsetFetchRequest()
		q.Groups = []kmsg.OffsetFetchRequestGroup{{Group: group, MemberEpoch: -1}}
		code := call[*kmsg.OffsetFetchResponse](n.t.Context(), n, q).Groups[0].ErrorCode
		if code == 0 {
			return
		}
		if time.Now().After(limit) {
			n.t.Fatalf("no coordinator: %v", kerr.ErrorForCode(code))
		}
	}
}

// join makes a member of a group of the consumer protocol, which leaves the assignment to the plugin.
func (n *tracedNode) join(ctx context.Context, group, topic string) *kmsg.ConsumerGroupHeartbeatResponse {
	n.t.Helper()
	assignor := "first"
	q := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	q.Group, q.MemberID, q.RebalanceTimeoutMillis = group, "bVU4XpVaRxq9aSMEdVFf3g", 30_000
	q.SubscribedTopicNames, q.ServerAssignor, q.Topics = []string{topic}, &assignor, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	resp := call[*kmsg.ConsumerGroupHeartbeatResponse](ctx, n, q)
	if resp.ErrorCode != 0 {
		n.t.Fatalf("joining: %v", kerr.ErrorForCode(resp.ErrorCode))
	}
	return resp
}
