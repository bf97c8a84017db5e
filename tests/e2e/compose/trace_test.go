//go:build compose

package compose

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.opentelemetry.io/otel/trace"

	"github.com/cauce-stream/cauce/libs/kafka/client"
)

// clientService is what Jaeger knows the test itself as.
const clientService = "e2e-client"

// oneTrace checks that what a client sets off is one trace: a topic's creation with each node that applied it, and a record with
// its broker and followers as well as the member of a group with its coordinator and the assignor's plugin.
func oneTrace(t *testing.T, collector string) {
	const topic = "traced"
	nodes := len(members) - 3 // of the controllers, the active one has its commit and the others make no spans
	creation := begin(t, collector, "create")
	created := creation.ask(t, external[0], createTopic(topic)).(*kmsg.CreateTopicsResponse)
	if err := kerr.ErrorForCode(created.Topics[0].ErrorCode); err != nil {
		t.Fatal(err)
	}
	creation.end(t)
	creation.await(t, func(j *jaegerTrace) error {
		applied := j.instances(func(s jaegerSpan) bool { return s.OperationName == "metadata apply" })
		if len(applied) < nodes {
			return fmt.Errorf("the topic was applied by %v, want %d nodes", applied, nodes)
		}
		return nil
	})

	order := begin(t, collector, "order")
	order.produce(t, topic)
	group := connect(t)
	defer group.Close()
	beat := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	beat.Group, beat.MemberID, beat.RebalanceTimeoutMillis, beat.SubscribedTopicNames = "traced-group", "member", 60_000, []string{topic}
	beat.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	eventually(t, "a member joins", func(ctx context.Context) error {
		found := kadm.NewClient(group).FindGroupCoordinators(ctx, beat.Group)[beat.Group]
		if found.Err != nil {
			return found.Err
		}
		answer := order.ask(t, fmt.Sprintf("%s:%d", found.Host, found.Port), beat).(*kmsg.ConsumerGroupHeartbeatResponse)
		return kerr.ErrorForCode(answer.ErrorCode)
	})
	order.end(t)
	order.await(t, func(j *jaegerTrace) error {
		brokers := j.instances(func(s jaegerSpan) bool { return j.Processes[s.ProcessID].ServiceName == "cauce-broker" })
		if len(brokers) < 3 {
			return fmt.Errorf("it has spans of the brokers %v, want the leader and two followers", brokers)
		}
		if len(j.instances(func(s jaegerSpan) bool { return j.Processes[s.ProcessID].ServiceName == "cauce-groupcoord" })) == 0 {
			return fmt.Errorf("it has no span of a coordinator")
		}
		if len(j.instances(func(s jaegerSpan) bool { return s.tag("cauce.plugin.name") != "" })) == 0 {
			return fmt.Errorf("it has no span of an assignor")
		}
		return nil
	})
}

func createTopic(name string) *kmsg.CreateTopicsRequest {
	request := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 3
	request.Topics, request.TimeoutMillis = append(request.Topics, topic), 30_000
	return request
}

// clientTrace is a trace that begins with a span of the test's own.
type clientTrace struct {
	collector string
	name      string
	began     time.Time
	span      trace.SpanContext
}

func begin(t *testing.T, collector, name string) *clientTrace {
	t.Helper()
	config := trace.SpanContextConfig{TraceFlags: trace.FlagsSampled}
	_, _ = rand.Read(config.TraceID[:])
	_, _ = rand.Read(config.SpanID[:])
	return &clientTrace{collector: collector, name: name, began: time.Now(), span: trace.NewSpanContext(config)}
}

// ask sends a request that names the client's span in its header, as an instrumented client would.
func (c *clientTrace) ask(t *testing.T, address string, request kmsg.Request) kmsg.Response {
	t.Helper()
	ctx := trace.ContextWithSpanContext(t.Context(), c.span)
	conn, err := client.DialExclusive(ctx, address, client.Config{ClientID: clientService})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	response, err := conn.Do(ctx, request, request.MaxVersion())
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// produce writes a record that names the client's span in its headers.
func (c *clientTrace) produce(t *testing.T, topic string) {
	t.Helper()
	producer := connect(t)
	defer producer.Close()
	parent := fmt.Sprintf("00-%s-%s-01", c.span.TraceID(), c.span.SpanID())
	record := &kgo.Record{Topic: topic, Value: []byte("order"), Headers: []kgo.RecordHeader{{Key: "traceparent", Value: []byte(parent)}}}
	if err := producer.ProduceSync(t.Context(), record).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// end hands the client's span to the collector, as OTLP in JSON.
func (c *clientTrace) end(t *testing.T) {
	t.Helper()
	span := map[string]any{
		"traceId": c.span.TraceID().String(), "spanId": c.span.SpanID().String(), "name": c.name, "kind": 3,
		"startTimeUnixNano": fmt.Sprint(c.began.UnixNano()), "endTimeUnixNano": fmt.Sprint(time.Now().UnixNano()),
	}
	service := map[string]any{"key": "service.name", "value": map[string]any{"stringValue": clientService}}
	body, err := json.Marshal(map[string]any{"resourceSpans": []any{map[string]any{
		"resource": map[string]any{"attributes": []any{service}}, "scopeSpans": []any{map[string]any{"spans": []any{span}}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.collector+"/v1/traces", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("the collector answers %s", response.Status)
	}
}

// await waits until Jaeger has the trace, whole: every span but the client's has its parent in it.
func (c *clientTrace) await(t *testing.T, check func(*jaegerTrace) error) {
	t.Helper()
	eventually(t, "the trace of "+c.name, func(ctx context.Context) error {
		var answer struct{ Data []*jaegerTrace }
		if err := getJSON(ctx, jaeger+"/api/traces/"+c.span.TraceID().String(), &answer); err != nil {
			return err
		}
		if len(answer.Data) != 1 {
			return fmt.Errorf("there are %d of it", len(answer.Data))
		}
		if err := answer.Data[0].isOneTree(c.span.SpanID().String()); err != nil {
			return err
		}
		return check(answer.Data[0])
	})
}

// jaegerTrace is a trace as Jaeger's query API tells it.
type jaegerTrace struct {
	TraceID   string
	Spans     []jaegerSpan
	Processes map[string]struct {
		ServiceName string
		Tags        []jaegerTag
	}
}

type jaegerSpan struct {
	SpanID        string
	OperationName string
	ProcessID     string
	References    []struct{ RefType, SpanID string }
	Tags          []jaegerTag
}

type jaegerTag struct {
	Key   string
	Value any
}

func (s jaegerSpan) tag(key string) string { return tagOf(s.Tags, key) }

func tagOf(tags []jaegerTag, key string) string {
	if i := slices.IndexFunc(tags, func(t jaegerTag) bool { return t.Key == key }); i >= 0 {
		return fmt.Sprint(tags[i].Value)
	}
	return ""
}

// instances are the processes that have spans which are so.
func (j *jaegerTrace) instances(is func(jaegerSpan) bool) (all []string) {
	for _, s := range j.Spans {
		if is(s) {
			all = append(all, j.Processes[s.ProcessID].ServiceName+" "+tagOf(j.Processes[s.ProcessID].Tags, "cauce.node.id"))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// isOneTree says which span has no parent in the trace.
func (j *jaegerTrace) isOneTree(root string) error {
	known := map[string]bool{}
	for _, s := range j.Spans {
		known[s.SpanID] = true
	}
	if !known[root] {
		return fmt.Errorf("the client's span is not there")
	}
	var orphans []string
	for _, s := range j.Spans {
		parent := ""
		for _, r := range s.References {
			if r.RefType == "CHILD_OF" {
				parent = r.SpanID
			}
		}
		if s.SpanID != root && !known[parent] {
			orphans = append(orphans, fmt.Sprintf("%s of %s", s.OperationName, j.Processes[s.ProcessID].ServiceName))
		}
	}
	if len(orphans) > 0 {
		return fmt.Errorf("without a parent: %s", strings.Join(orphans, ", "))
	}
	return nil
}
