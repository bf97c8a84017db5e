package configkeys

import (
	"slices"
	"testing"

	"github.com/cauce-stream/cauce/libs/config"
)

// TestAddressesFollowFromTheVoters is a node of a compose file made for the apache/kafka image.
func TestAddressesFollowFromTheVoters(t *testing.T) {
	voters := map[string]string{
		"node.id": "2", "controller.quorum.voters": "1@kafka-1:9093,2@kafka-2:9093,3@[::3]:9093", "controller.listener.names": "controller",
		"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093,EXTERNAL://:19092", "controller.bus.route.listener": ":6222",
	}
	tests := []struct {
		name                           string
		more                           map[string]string
		listeners, peers, bus, routing []string
	}{
		{"voters", nil,
			[]string{"PLAINTEXT://:9092", "EXTERNAL://:19092"},
			[]string{"1@kafka-1:9093", "2@kafka-2:9093", "3@[::3]:9093"},
			[]string{"nats://kafka-1:4222", "nats://kafka-2:4222", "nats://[::3]:4222"},
			[]string{"nats://kafka-1:6222", "nats://[::3]:6222"}},
		{"own keys", map[string]string{"controller.peers": "2@c:1", "bus.servers": "nats://b:2", "controller.bus.routes": "nats://r:3", "controller.listener.names": ""},
			[]string{"PLAINTEXT://:9092", "CONTROLLER://:9093", "EXTERNAL://:19092"},
			[]string{"2@c:1"}, []string{"nats://b:2"}, []string{"nats://r:3"}},
		{"a bus without routes", map[string]string{"controller.bus.listener": ":5000", "controller.bus.route.listener": ""},
			[]string{"PLAINTEXT://:9092", "EXTERNAL://:19092"},
			[]string{"1@kafka-1:9093", "2@kafka-2:9093", "3@[::3]:9093"},
			[]string{"nats://kafka-1:5000", "nats://kafka-2:5000", "nats://[::3]:5000"}, nil},
		{"no voters", map[string]string{"controller.quorum.voters": ""},
			[]string{"PLAINTEXT://:9092", "EXTERNAL://:19092"}, nil, []string{"nats://127.0.0.1:4222"}, nil},
	}
	for _, test := range tests {
		given, err := config.FromMap(Broker(), voters)
		if err != nil {
			t.Fatal(err)
		}
		v, err := given.With(test.more, "test")
		if err != nil {
			t.Fatal(err)
		}
		for what, lists := range map[string][2][]string{
			"listeners": {Listeners(v), test.listeners}, "peers": {ControllerPeers(v), test.peers},
			"bus servers": {BusServers(v), test.bus}, "bus routes": {BusRoutes(v), test.routing},
		} {
			if !slices.Equal(lists[0], lists[1]) {
				t.Errorf("%s: %s are %q, want %q", test.name, what, lists[0], lists[1])
			}
		}
	}
}
