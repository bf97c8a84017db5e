package main

import (
	"fmt"
	"testing"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/kit"
)

func TestAssign(t *testing.T) {
	all := func(topics ...int) []plugin.TopicPartitions {
		var list []plugin.TopicPartitions
		for _, t := range topics {
			list = append(list, plugin.TopicPartitions{Topic: t, Partitions: []int32{0, 1}})
		}
		return list
	}
	three := []int{0, 1, 2}
	tests := []struct {
		name    string
		members []plugin.Member
		want    string
	}{
		{"topics are spread", []plugin.Member{{Topics: three}, {Topics: three}}, "[[{0 [0 1]} {2 [0 1]}] [{1 [0 1]}]]"},
		{"topics stay", []plugin.Member{{Topics: three, Target: all(1)}, {Topics: three, Target: all(0, 2)}}, "[[{1 [0 1]}] [{0 [0 1]} {2 [0 1]}]]"},
		{"one moves to a newcomer", []plugin.Member{{Topics: three}, {Topics: three, Target: all(0, 1, 2)}}, "[[{0 [0 1]}] [{1 [0 1]} {2 [0 1]}]]"},
		{"half a topic is none", []plugin.Member{{Topics: []int{0}, Target: []plugin.TopicPartitions{{Topic: 0, Partitions: []int32{0}}}}, {Topics: []int{0}, Target: []plugin.TopicPartitions{{Topic: 0, Partitions: []int32{1}}}}}, "[[{0 [0 1]}] []]"},
	}
	for _, test := range tests {
		r := &plugin.Request{Topics: []plugin.Topic{{Partitions: 2}, {Partitions: 2}, {Partitions: 2}}, Members: test.members}
		got, err := exclusive{}.Assign(t.Context(), r)
		if err != nil || fmt.Sprint(got) != test.want {
			t.Errorf("%s: %v, %v, want %s", test.name, got, err, test.want)
		}
	}
}

// TestConformance leaves out balance, which this assignor does not want.
func TestConformance(t *testing.T) {
	for _, result := range kit.Check(t.Context(), exclusive{}.Assign, []string{"balanced"}) {
		if result.Fault != nil {
			t.Errorf("%s: %v", result.Name, result.Fault)
		}
	}
}
