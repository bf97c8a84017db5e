package partition

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/placement"
)

// Configs that throttle replication (KIP-73).
const (
	leaderRate       = "leader.replication.throttled.rate"
	followerRate     = "follower.replication.throttled.rate"
	leaderReplicas   = "leader.replication.throttled.replicas"
	followerReplicas = "follower.replication.throttled.replicas"
)

// throttles are what a plan throttles: on the leaders' side the replicas that are there, on the followers' those that come.
type throttles struct {
	leaders, followers map[string][]string // by topic: PARTITION:NODE
	brokers            map[int32]bool      // of both
}

func throttlesOf(plan placement.Plan, now map[string]placement.Partition) throttles {
	t := throttles{leaders: map[string][]string{}, followers: map[string][]string{}, brokers: map[int32]bool{}}
	for _, p := range plan.Partitions {
		sources := now[p.Name()].Replicas
		coming := slices.DeleteFunc(slices.Clone(p.Replicas), func(id int32) bool { return slices.Contains(sources, id) })
		if len(coming) == 0 {
			continue
		}
		for _, id := range sources {
			t.leaders[p.Topic] = append(t.leaders[p.Topic], fmt.Sprintf("%d:%d", p.Partition, id))
			t.brokers[id] = true
		}
		for _, id := range coming {
			t.followers[p.Topic] = append(t.followers[p.Topic], fmt.Sprintf("%d:%d", p.Partition, id))
			t.brokers[id] = true
		}
	}
	return t
}

func setThrottles(ctx context.Context, client *kgo.Client, t throttles, bytesPerSecond int64) error {
	var resources []kmsg.IncrementalAlterConfigsRequestResource
	rate := strconv.FormatInt(bytesPerSecond, 10)
	for _, id := range slices.Sorted(maps.Keys(t.brokers)) {
		resources = append(resources, resource(kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(id)), leaderRate, &rate, followerRate, &rate))
	}
	for _, topic := range slices.Sorted(maps.Keys(t.leaders)) {
		leaders, followers := strings.Join(t.leaders[topic], ","), strings.Join(t.followers[topic], ",")
		resources = append(resources, resource(kmsg.ConfigResourceTypeTopic, topic, leaderReplicas, &leaders, followerReplicas, &followers))
	}
	return alter(ctx, client, resources)
}

// clearThrottles takes the throttles off the plan's topics and all brokers.
func clearThrottles(ctx context.Context, client *kgo.Client, plan placement.Plan) error {
	brokers, err := Brokers(ctx, client)
	if err != nil {
		return err
	}
	topics := map[string]bool{}
	for _, p := range plan.Partitions {
		topics[p.Topic] = true
	}
	var resources []kmsg.IncrementalAlterConfigsRequestResource
	for _, b := range brokers {
		resources = append(resources, resource(kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(b.ID)), leaderRate, nil, followerRate, nil))
	}
	for _, topic := range slices.Sorted(maps.Keys(topics)) {
		resources = append(resources, resource(kmsg.ConfigResourceTypeTopic, topic, leaderReplicas, nil, followerReplicas, nil))
	}
	return alter(ctx, client, resources)
}

// resource sets two configs, or goes back to the defaults for nil.
func resource(kind kmsg.ConfigResourceType, name, key1 string, value1 *string, key2 string, value2 *string) kmsg.IncrementalAlterConfigsRequestResource {
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kind, name
	for _, change := range []struct {
		key   string
		value *string
	}{{key1, value1}, {key2, value2}} {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Value = change.key, change.value
		if change.value == nil {
			c.Op = kmsg.IncrementalAlterConfigOpDelete
		}
		r.Configs = append(r.Configs, c)
	}
	return r
}

// alter sends each resource where it is to go: Kafka has the configs of a broker altered by that broker.
func alter(ctx context.Context, client *kgo.Client, resources []kmsg.IncrementalAlterConfigsRequestResource) error {
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	request.Resources = resources
	for _, shard := range client.RequestSharded(ctx, request) {
		if shard.Err != nil {
			return exit.Answer(shard.Err, "")
		}
		for _, answer := range shard.Resp.(*kmsg.IncrementalAlterConfigsResponse).Resources {
			if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
				return fmt.Errorf("%s: %w", answer.ResourceName, exit.Answer(err, text(answer.ErrorMessage)))
			}
		}
	}
	return nil
}
