package dev

import (
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestFindsTheCoordinator asks for coordinators on a node that never had any, with what dev sets by itself.
func TestFindsTheCoordinator(t *testing.T) {
	v, cleanUp, err := complete(values(t, t.TempDir()), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cleanUp(); err != nil {
			t.Error(err)
		}
	}()
	c := start(t, v)
	client := c.client()
	found := findCoordinators(t, client, 0) + findCoordinators(t, client, 1)
	topics, err := kadm.NewClient(client).ListTopicsWithInternal(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"__consumer_offsets", "__transaction_state"} {
		if d := topics[name]; len(d.Partitions) != 50 || len(d.Partitions[0].Replicas) != 1 || !d.IsInternal {
			t.Errorf("%s: %d partitions %+v", name, len(d.Partitions), d)
		}
	}
	client.Close()
	c.close()

	c = start(t, v)
	client = c.client()
	defer client.Close()
	if again := findCoordinators(t, client, 0) + findCoordinators(t, client, 1); again != found {
		t.Errorf("after a restart:\n%snot\n%s", again, found)
	}
	if _, err := kadm.NewClient(client).CreateTopic(t.Context(), 1, 1, nil, "__share_group_state"); !errors.Is(err, kerr.InvalidTopicException) {
		t.Errorf("a client creates an internal topic: %v", err)
	}
}

// findCoordinators asks, once and without another try, for the coordinators of some names.
func findCoordinators(t *testing.T, client *kgo.Client, kind int8) string {
	t.Helper()
	q := kmsg.NewPtrFindCoordinatorRequest()
	q.Version, q.CoordinatorType = 6, kind
	for i := range 20 {
		q.CoordinatorKeys = append(q.CoordinatorKeys, fmt.Sprint("name-", i))
	}
	kresp, err := client.SeedBrokers()[0].Request(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	var text string
	for _, r := range kresp.(*kmsg.FindCoordinatorResponse).Coordinators {
		if r.ErrorCode != 0 || r.Host == "" || r.Port <= 0 {
			t.Errorf("%+v", r)
		}
		text += fmt.Sprintf("%s: node %d\n", r.Key, r.NodeID)
	}
	return text
}
