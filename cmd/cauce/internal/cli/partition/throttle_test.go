package partition

import (
	"fmt"
	"testing"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/placement"
)

func TestThrottlesAreOfWhatMoves(t *testing.T) {
	at := func(topic string, n int32, replicas ...int32) placement.Partition {
		return placement.Partition{Topic: topic, Partition: n, Replicas: replicas}
	}
	plan := placement.New([]placement.Partition{at("a", 0, 3, 1), at("a", 1, 2, 1), at("b", 0, 4)})
	now := map[string]placement.Partition{"a-0": at("a", 0, 1, 2), "a-1": at("a", 1, 1, 2), "b-0": at("b", 0, 1)}
	got := throttlesOf(plan, now)
	want := "map[a:[0:1 0:2] b:[0:1]] map[a:[0:3] b:[0:4]] map[1:true 2:true 3:true 4:true]"
	if text := fmt.Sprint(got.leaders, got.followers, got.brokers); text != want {
		t.Errorf("%s, want %s", text, want)
	}
}
