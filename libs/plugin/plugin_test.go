package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"

	"github.com/cauce-stream/cauce/libs/plugin/pluginpb"
)

type named string

func (n named) Info() Info { return Info{Name: string(n)} }

type assignor struct{ named }

func (assignor) Assign(context.Context, *Request) (Response, error) { return nil, nil }

func TestWhatCanBeServed(t *testing.T) {
	tests := []struct {
		plugins []Plugin
		want    string
	}{
		{nil, "no plugin given"},
		{[]Plugin{named("x")}, "neither an Assignor nor a Partitioner"},
		{[]Plugin{assignor{"a b"}}, `has the name "a b"`},
		{[]Plugin{assignor{""}}, `has the name ""`},
		{[]Plugin{assignor{"a"}, assignor{"a"}}, `two plugins of one kind have the name "a"`},
		{[]Plugin{assignor{"a"}, assignor{"b.C_1-2"}}, ""},
	}
	for _, test := range tests {
		offers, err := check(test.plugins)
		if test.want == "" && (err != nil || len(offers) != len(test.plugins)) || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%v: %v, want %q", test.plugins, err, test.want)
		}
	}
}

// TestNumbersOutsideOfARequest has each reference of a request lead nowhere.
func TestNumbersOutsideOfARequest(t *testing.T) {
	tests := []struct {
		spoil func(*pluginpb.AssignRequest)
		want  string
	}{
		{func(r *pluginpb.AssignRequest) { r.Subscriptions[0].Topics[0] = 1 }, "subscription 0: there is no topic 1"},
		{func(r *pluginpb.AssignRequest) { r.Members[0].Subscription = 1 }, "no subscription 1"},
		{func(r *pluginpb.AssignRequest) { r.Members[0].Rack = 2 }, "no rack 2"},
		{func(r *pluginpb.AssignRequest) { r.Members[0].Target[0].Topic = 1 }, `member "m": there is no topic 1`},
		{func(r *pluginpb.AssignRequest) { r.Topics[0].Racks[0] = 1 }, `topic "t": there is no rack 1`},
		{func(r *pluginpb.AssignRequest) { r.Topics[0].RackCounts[0] = 2 }, "partition 0 has 2 racks, of which 1 are listed"},
		{func(*pluginpb.AssignRequest) {}, ""},
	}
	for _, test := range tests {
		r := &pluginpb.AssignRequest{
			Topics:        []*pluginpb.AssignTopic{{Name: "t", Partitions: 1, RackCounts: []uint32{1}, Racks: []uint32{0}}},
			Members:       []*pluginpb.AssignMember{{Id: "m", Rack: 1, Target: []*pluginpb.TopicPartitions{{}}}},
			Subscriptions: []*pluginpb.Subscription{{Topics: []uint32{0}}},
			Racks:         []string{"a"},
		}
		test.spoil(r)
		got, err := decodeRequest(r)
		if test.want == "" {
			if err != nil || got.Members[0].Rack != "a" || got.Topics[0].Racks[0][0] != "a" {
				t.Errorf("%+v, %v", got, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want %q", err, test.want)
		}
	}
}

// TestOriginalPartitionsOutsideOfABatch has each reference of a batch to put lead nowhere.
func TestOriginalPartitionsOutsideOfABatch(t *testing.T) {
	one := []byte{0x1a, 0} // a record without anything
	for want, put := range map[string]*pluginpb.Put{
		"original partition 2, and there are 1":                 {Records: one, Originals: []*pluginpb.TopicPartition{{}}, OriginalOf: []uint32{2}},
		"1 records to put have the original partitions of 2":    {Records: one, OriginalOf: []uint32{0, 0}},
		"records to put: decode a batch of records: unexpected": {Records: []byte{0x1a}},
	} {
		r := &sinkRun{}
		if err := r.take(put); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestLogLinesCarryTheCallersTrace(t *testing.T) {
	var out bytes.Buffer
	ctx := withTrace(metadata.NewIncomingContext(t.Context(), metadata.Pairs("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")))
	newLogger(&out).With("a", 1).InfoContext(ctx, "asked", slog.Int("b", 2))
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	if line["trace_id"] != "0af7651916cd43dd8448eb211c80319c" || line["span_id"] != "b7ad6b7169203331" || line["b"] != 2.0 || line["a"] != 1.0 || line["msg"] != "asked" {
		t.Errorf("line %v", line)
	}
}
