//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	groupCount   = 60
	offsetsTopic = "__consumer_offsets"
)

// TestGroupsAcrossNodes asks every node about groups that one of them coordinates, as tools do.
func TestGroupsAcrossNodes(t *testing.T) {
	c := startCluster(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(c.kafka...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	g := &groupNodes{T: t, client: client, admin: kadm.NewClient(client)}
	eventually(t, "all nodes are known", func(ctx context.Context) error {
		nodes, err := g.admin.ListBrokers(ctx)
		if err == nil && len(nodes) != len(roles) {
			err = fmt.Errorf("nodes are %v", nodes.NodeIDs())
		}
		g.nodes = nodes.NodeIDs()
		return err
	})
	create(t, g.admin, "orders")
	for i := range groupCount {
		g.ids = append(g.ids, fmt.Sprintf("group-%d", i))
	}
	g.commit()
	t.Run("coordinators", g.coordinators)
	t.Run("list", g.list)
	t.Run("describe", g.describe)
	t.Run("topic", g.offsetsTopic)
}

type groupNodes struct {
	*testing.T
	client *kgo.Client
	admin  *kadm.Client
	nodes  []int32
	ids    []string
}

// commit makes the groups by committing to them. The first commit of all has the coordinators' topic created.
func (g *groupNodes) commit() {
	for _, id := range g.ids {
		eventually(g.T, "a commit of "+id, func(ctx context.Context) error {
			return g.admin.CommitAllOffsets(ctx, id, kadm.OffsetsFromRecords(kgo.Record{Topic: "orders", Offset: 41}))
		})
	}
}

// find asks one node for the coordinators of all groups.
func (g *groupNodes) find(t *testing.T, node int32) map[string]int32 {
	t.Helper()
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKeys = g.ids
	res, err := req.RequestWith(t.Context(), g.client.Broker(int(node)))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int32{}
	for _, c := range res.Coordinators {
		if err := kerr.ErrorForCode(c.ErrorCode); err != nil {
			t.Errorf("node %d on %s: %v", node, c.Key, err)
		}
		out[c.Key] = c.NodeID
	}
	return out
}

// coordinators: every node names the same ones, and they are nodes that Metadata lists (BL-029, BL-027).
func (g *groupNodes) coordinators(t *testing.T) {
	first := g.find(t, g.nodes[0])
	for _, node := range g.nodes {
		for id, coordinator := range g.find(t, node) {
			if coordinator != first[id] || !slices.Contains(g.nodes, coordinator) {
				t.Errorf("node %d names %d as the coordinator of %s, node %d names %d; the nodes are %v",
					node, coordinator, id, g.nodes[0], first[id], g.nodes)
			}
		}
	}
}

// list: what all nodes list together is each group once, at its coordinator (BL-113).
func (g *groupNodes) list(t *testing.T) {
	coordinators := g.find(t, g.nodes[0])
	for version := int16(0); version <= 5; version++ {
		listed := map[string][]int32{}
		for _, node := range g.nodes {
			for _, group := range g.listed(t, node, version) {
				listed[group] = append(listed[group], node)
			}
		}
		for _, id := range g.ids {
			if !slices.Equal(listed[id], []int32{coordinators[id]}) {
				t.Errorf("v%d: %s is listed by %v, its coordinator is %d", version, id, listed[id], coordinators[id])
			}
		}
		if len(listed) != len(g.ids) {
			t.Errorf("v%d: %d groups are listed, there are %d", version, len(listed), len(g.ids))
		}
	}
	for _, filter := range []struct {
		states, types []string
		want          int
	}{
		{[]string{"Empty"}, nil, groupCount}, {[]string{"empty"}, []string{"classic"}, groupCount},
		{[]string{"Stable"}, nil, 0}, {nil, []string{"consumer"}, 0},
	} {
		got := 0
		for _, node := range g.nodes {
			got += len(g.listed(t, node, 5, filter.states, filter.types))
		}
		if got != filter.want {
			t.Errorf("states %v, types %v: %d groups, want %d", filter.states, filter.types, got, filter.want)
		}
	}
}

func (g *groupNodes) listed(t *testing.T, node int32, version int16, filters ...[]string) []string {
	t.Helper()
	req := kmsg.NewPtrListGroupsRequest()
	req.Version = version
	if len(filters) == 2 {
		req.StatesFilter, req.TypesFilter = filters[0], filters[1]
	}
	var res *kmsg.ListGroupsResponse
	if raw, err := g.client.Broker(int(node)).Request(t.Context(), pinned{req, version}); err != nil {
		t.Fatal(err)
	} else {
		res = raw.(*kmsg.ListGroupsResponse)
	}
	if err := kerr.ErrorForCode(res.ErrorCode); err != nil {
		t.Errorf("ListGroups v%d of node %d: %v", version, node, err)
	}
	var out []string
	for _, group := range res.Groups {
		if group.ProtocolType != "connect" { // the worker's own, which comes when it does
			out = append(out, group.Group)
		}
	}
	return out
}

// pinned keeps franz-go from raising a request's version.
type pinned struct {
	kmsg.Request
	version int16
}

func (p pinned) MaxVersion() int16 { return p.version }

// describe: any node but the coordinator says so; the coordinator knows which groups it does not have (BL-113).
func (g *groupNodes) describe(t *testing.T) {
	for id, coordinator := range g.find(t, g.nodes[0]) {
		for _, node := range g.nodes {
			state, code := g.described(t, node, id, 6)
			if node != coordinator && !errors.Is(code, kerr.NotCoordinator) || node == coordinator && (code != nil || state != "Empty") {
				t.Errorf("%s of node %d, described by node %d: %v, %q", id, coordinator, node, code, state)
			}
		}
	}
	coordinator := g.find(t, g.nodes[0])[g.ids[0]]
	absent := g.absent(t, coordinator)
	if state, code := g.described(t, coordinator, absent, 5); code != nil || state != "Dead" {
		t.Errorf("an unknown group by v5: %v, %q, want a dead one", code, state)
	}
	if _, code := g.described(t, coordinator, absent, 6); !errors.Is(code, kerr.GroupIDNotFound) {
		t.Errorf("an unknown group by v6: %v, want GROUP_ID_NOT_FOUND", code)
	}
}

func (g *groupNodes) described(t *testing.T, node int32, id string, version int16) (state string, code error) {
	t.Helper()
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{id}
	raw, err := g.client.Broker(int(node)).Request(t.Context(), pinned{req, version})
	if err != nil {
		t.Fatal(err)
	}
	group := raw.(*kmsg.DescribeGroupsResponse).Groups[0]
	return group.State, kerr.ErrorForCode(group.ErrorCode)
}

// absent is the id of a group that does not exist and would be the coordinator's.
func (g *groupNodes) absent(t *testing.T, coordinator int32) string {
	t.Helper()
	for i := range 1000 {
		id := fmt.Sprintf("absent-%d", i)
		probe := &groupNodes{T: t, client: g.client, ids: []string{id}}
		if probe.find(t, g.nodes[0])[id] == coordinator {
			return id
		}
	}
	t.Fatalf("no id belongs to node %d", coordinator)
	return ""
}

// offsetsTopic: clients see and read the topic of committed offsets, and neither write nor create it (BL-111).
func (g *groupNodes) offsetsTopic(t *testing.T) {
	topics, err := g.admin.ListTopicsWithInternal(t.Context(), offsetsTopic)
	if err != nil || !topics[offsetsTopic].IsInternal || len(topics[offsetsTopic].Partitions) != 50 {
		t.Fatalf("%s in Metadata: %+v, %v", offsetsTopic, topics[offsetsTopic], err)
	}
	ends, err := g.admin.ListEndOffsets(t.Context(), offsetsTopic)
	if err != nil {
		t.Fatal(err)
	}
	total := int64(0)
	ends.Each(func(o kadm.ListedOffset) { total += o.Offset })
	if total < groupCount {
		t.Fatalf("%d records in %s, %d groups committed", total, offsetsTopic, groupCount)
	}
	reader, err := kgo.NewClient(kgo.SeedBrokers(g.client.OptValue(kgo.SeedBrokers).([]string)...), kgo.ConsumeTopics(offsetsTopic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	seen := map[string]bool{}
	eventually(t, "a key of each group", func(ctx context.Context) error {
		reader.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			for _, id := range g.ids {
				if strings.Contains(string(r.Key), id+"\x00") {
					seen[id] = true
				}
			}
		})
		if len(seen) < groupCount {
			return fmt.Errorf("seen %d of %d", len(seen), groupCount)
		}
		return nil
	})
	err = g.client.ProduceSync(t.Context(), &kgo.Record{Topic: offsetsTopic, Key: []byte("k"), Value: []byte("v")}).FirstErr()
	if !errors.Is(err, kerr.InvalidTopicException) {
		t.Errorf("writing to %s: %v, want INVALID_TOPIC_EXCEPTION", offsetsTopic, err)
	}
	created, err := g.admin.CreateTopics(t.Context(), 1, 1, nil, offsetsTopic, "__transaction_state")
	for _, topic := range []string{offsetsTopic, "__transaction_state"} {
		if err != nil || created[topic].Err == nil {
			t.Errorf("creating %s: %v, %v, want it refused", topic, created[topic].Err, err)
		}
	}
}
