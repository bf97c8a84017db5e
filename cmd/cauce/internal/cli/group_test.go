package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
)

// joined has a member of group app, static as "one", consume and commit the two records of topic orders, and consume on.
func joined(t *testing.T, cluster string, options ...kgo.Opt) {
	t.Helper()
	mustRun(t, "topic", "create", "orders", "-p", "2", "-b", cluster)
	mustRun(t, "produce", "orders", "a", "b", "-p", "0", "-b", cluster)
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(cluster), kgo.ClientID("consumer"), kgo.ConsumerGroup("app"), kgo.ConsumeTopics("orders"), kgo.InstanceID("one"), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	for seen := 0; seen < 2; {
		fetches := client.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		seen += fetches.NumRecords()
	}
	if err := client.CommitUncommittedOffsets(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustRun(t, "produce", "orders", "c", "d", "e", "-p", "0", "-b", cluster)
}

type describedGroup struct {
	Type, State, Assignor string
	Epoch                 int
	Members               []struct {
		Client   string `json:"client_id"`
		Instance string `json:"instance_id"`
		Epoch    int
		Topics   []string
		Assigned []struct {
			Topic      string
			Partitions []int
		}
	}
}

func TestGroupWithMembers(t *testing.T) {
	tests := []struct {
		kind     string
		options  []kgo.Opt
		assignor string
		epochs   bool
	}{
		{"classic", []kgo.Opt{kgo.Balancers(kgo.RangeBalancer())}, "range", false},
		{"consumer", []kgo.Opt{kgo.ServerSideBalancer(), kgo.Balancers(kgo.RangeBalancer())}, "range", true},
	}
	for _, test := range tests {
		t.Run(test.kind, func(t *testing.T) {
			cluster := newCluster(t)
			joined(t, cluster, test.options...)
			var groups []describedGroup
			out := mustRun(t, "group", "describe", "app", "-o", "json", "-b", cluster)
			if err := json.Unmarshal([]byte(out), &groups); err != nil || len(groups) != 1 || len(groups[0].Members) != 1 {
				t.Fatalf("%v: %s", err, out)
			}
			g, m := groups[0], groups[0].Members[0]
			if g.Type != test.kind || g.State != "Stable" || g.Assignor != test.assignor || (g.Epoch > 0) != test.epochs || (m.Epoch > 0) != test.epochs {
				t.Errorf("described as %s", out)
			}
			if m.Client != "consumer" || m.Instance != "one" || len(m.Topics) != 1 || len(m.Assigned) != 1 || len(m.Assigned[0].Partitions) != 2 {
				t.Errorf("its member is described as %s", out)
			}
			refusesWhatWouldDisturb(t, cluster)
			if test.kind == "consumer" {
				return // the fake cluster does not name the topics that its members own
			}
			for _, want := range []string{"Lag    3\n", "orders          0          2      0    5    3", "orders          1          -      0    0    -", "  consumer  "} {
				if out := mustRun(t, "group", "offsets", "app", "-b", cluster); !strings.Contains(out, want) {
					t.Errorf("the offsets do not tell %q:\n%s", want, out)
				}
			}
			out = mustRun(t, "group", "why", "app", "--interval", "100ms", "-b", cluster)
			if !strings.HasPrefix(out, "app is WARNING\n") || !strings.Contains(out, "orders:0  nothing was committed for 100ms, and 3 records wait (member consumer at ") {
				t.Errorf("the group is held up by\n%s", out)
			}
		})
	}
}

func refusesWhatWouldDisturb(t *testing.T, cluster string) {
	for _, test := range []struct{ args, want string }{
		{"group reset app --topic orders --to-earliest --execute", "has members (consumer at "},
		{"group reset app --topic orders --to-earliest", "has members (consumer at "},
		{"group delete app", "has members: stop them first (NON_EMPTY_GROUP)"},
		{"group delete app --offsets orders:0", ": stop them first ("},
	} {
		_, errs, code := execute(t, "", append(strings.Fields(test.args), "-b", cluster)...)
		if code != exit.Failed || !strings.Contains(errs, test.want) {
			t.Errorf("%s: exit %d, %q, want %q", test.args, code, errs, test.want)
		}
	}
}

func TestWatchedGroupsUntilInterrupted(t *testing.T) {
	cluster := newCluster(t)
	mustRun(t, "topic", "create", "orders", "-p", "1", "-b", cluster)
	mustRun(t, "group", "reset", "app", "--topic", "orders", "--to-latest", "--execute", "-b", cluster)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	const twice = `"members":0,"coordinator_id":0}]` + "\n" + `[{"group":"app",`
	out := &interrupt{text: twice, stop: stop}
	var errs bytes.Buffer
	if code := Run(ctx, []string{"group", "list", "--watch=100ms", "-o", "json", "-b", cluster}, nil, out, &errs); code != exit.OK {
		t.Errorf("exit %d: %s", code, errs.String())
	}
}

func TestCompletionKnowsGroups(t *testing.T) {
	cluster := newCluster(t)
	mustRun(t, "topic", "create", "orders", "-p", "1", "-b", cluster)
	for _, group := range []string{"app", "app-2", "other"} {
		mustRun(t, "group", "reset", group, "--topic", "orders", "--to-latest", "--execute", "-b", cluster)
	}
	if out := mustRun(t, "__complete", "group", "offsets", "-b", cluster, "ap"); !strings.HasPrefix(out, "app\napp-2\n:4\n") {
		t.Errorf("completed %q", out)
	}
}
