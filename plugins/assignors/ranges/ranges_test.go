package ranges

import (
	"fmt"
	"testing"

	"github.com/cauce-stream/cauce/libs/plugin"
)

func TestRanges(t *testing.T) {
	both, first := []int{0, 1}, []int{0}
	tests := []struct {
		name    string
		sizes   []int32
		members []plugin.Member
		want    string
	}{
		{"co-partitioned", []int32{3, 3}, []plugin.Member{{ID: "a", Topics: both}, {ID: "b", Topics: both}},
			"[[{0 [0 1]} {1 [0 1]}] [{0 [2]} {1 [2]}]]"},
		{"more members than partitions", []int32{2}, []plugin.Member{{ID: "a", Topics: first}, {ID: "b", Topics: first}, {ID: "c", Topics: first}},
			"[[{0 [0]}] [{0 [1]}] []]"},
		{"different subscriptions", []int32{4, 3}, []plugin.Member{{ID: "a", Topics: first}, {ID: "b", Topics: both}},
			"[[{0 [0 1]}] [{0 [2 3]} {1 [0 1 2]}]]"},
		{"static members first, by instance", []int32{3}, []plugin.Member{
			{ID: "a", Topics: first}, {ID: "b", InstanceID: "2", Topics: first}, {ID: "c", InstanceID: "1", Topics: first}},
			"[[{0 [2]}] [{0 [1]}] [{0 [0]}]]"},
		{"nobody", []int32{3}, nil, "[]"},
	}
	for _, test := range tests {
		r := &plugin.Request{Members: test.members}
		for i, n := range test.sizes {
			r.Topics = append(r.Topics, plugin.Topic{ID: [16]byte{byte(i)}, Partitions: n})
		}
		got, err := Assignor{}.Assign(t.Context(), r)
		if err != nil || fmt.Sprint(got) != test.want {
			t.Errorf("%s: %v, %v, want %s", test.name, got, err, test.want)
		}
	}
}

// TestStaticMembersKeepTheirRanges restarts all members, which get other ids in another order.
func TestStaticMembersKeepTheirRanges(t *testing.T) {
	topics := []plugin.Topic{{Partitions: 3}}
	before, _ := Assignor{}.Assign(t.Context(), &plugin.Request{Topics: topics, Members: []plugin.Member{
		{ID: "a", InstanceID: "I0", Topics: []int{0}}, {ID: "b", InstanceID: "I1", Topics: []int{0}}}})
	after, _ := Assignor{}.Assign(t.Context(), &plugin.Request{Topics: topics, Members: []plugin.Member{
		{ID: "c", InstanceID: "I1", Topics: []int{0}}, {ID: "d", InstanceID: "I0", Topics: []int{0}}}})
	if fmt.Sprint(before[0]) != fmt.Sprint(after[1]) || fmt.Sprint(before[1]) != fmt.Sprint(after[0]) {
		t.Errorf("before %v, after %v", before, after)
	}
}
