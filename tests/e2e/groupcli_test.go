//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/tests/devserver"
)

// TestConsumerGroupOnTheCommandLine looks at a group of the consumer protocol (KIP-848) as an operator does.
func TestConsumerGroupOnTheCommandLine(t *testing.T) {
	s, err := devserver.Start(t.Context(), devserver.Options{DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}()
	producer, err := kgo.NewClient(kgo.SeedBrokers(s.Bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	if _, err := kadm.NewClient(producer).CreateTopic(t.Context(), 2, 1, nil, "orders"); err != nil {
		t.Fatal(err)
	}
	produce := func(n int) {
		for range n {
			if err := producer.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: []byte("o")}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	produce(2)
	member, err := kgo.NewClient(kgo.SeedBrokers(s.Bootstrap), kgo.ClientID("billing"), kgo.ConsumerGroup("app"), kgo.ConsumeTopics("orders"),
		kgo.DisableAutoCommit(), kgo.ServerSideBalancer(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer member.Close()
	for seen := 0; seen < 2; {
		fetches := member.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		seen += fetches.NumRecords()
	}
	if err := member.CommitUncommittedOffsets(t.Context()); err != nil {
		t.Fatal(err)
	}
	produce(3)

	var groups []struct{ Type, State, Assignor string }
	eventually(t, "the group is stable", func(context.Context) error {
		if err := json.Unmarshal([]byte(cauce(t, s, "group", "describe", "app", "-o", "json")), &groups); err != nil {
			return err
		}
		if len(groups) != 1 || groups[0].State != "Stable" {
			return fmt.Errorf("it is described as %+v", groups)
		}
		return nil
	})
	if !strings.EqualFold(groups[0].Type, "consumer") || groups[0].Assignor != "uniform" {
		t.Errorf("the group is described as %+v", groups)
	}
	checkOffsets(t, s)
	why := cauce(t, s, "group", "why", "app", "--interval", "100ms")
	if !strings.HasPrefix(why, "app is WARNING\n") || !strings.Contains(why, "orders:0  nothing was committed for 100ms, and 3 records wait (member billing at ") {
		t.Errorf("the group is held up by\n%s", why)
	}
}

// checkOffsets: partition 0 is behind by what came after the commit, partition 1 has nothing to commit, and both are the member's.
func checkOffsets(t *testing.T, s *devserver.Server) {
	t.Helper()
	type offset struct {
		Topic     string
		Partition int32
		Committed int64 `json:"committed_offset"`
		Lag       int64
		Client    string `json:"client_id"`
	}
	var groups []struct {
		Lag     int64
		Offsets []offset
	}
	out := cauce(t, s, "group", "offsets", "app", "-o", "json")
	if err := json.Unmarshal([]byte(out), &groups); err != nil || len(groups) != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	want := []offset{{"orders", 0, 2, 3, "billing"}, {"orders", 1, -1, -1, "billing"}}
	if g := groups[0]; g.Lag != 3 || !slices.Equal(g.Offsets, want) {
		t.Errorf("the offsets are %s", out)
	}
	table := cauce(t, s, "group", "offsets", "app")
	if !strings.Contains(table, "\nLag    3\n") || strings.Count(table, "  billing  ") != 2 {
		t.Errorf("the offsets are shown as\n%s", table)
	}
}

// cauce runs the program against a server and returns what it prints.
func cauce(t *testing.T, s *devserver.Server, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join("..", "..", "bin", "cauce"), append(args, "-b", s.Bootstrap)...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	return string(out)
}
