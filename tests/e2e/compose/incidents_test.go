//go:build compose

package compose

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/tests/retry"
)

// TestIncidents provokes what operators meet, and holds `cauce group why` and the alerts to what they say of it. The alerts wait
// for seconds instead of minutes before they fire; promtool holds them to their own times. docs/operations.md has the table.
func TestIncidents(t *testing.T) {
	t.Setenv("TRACES_EXPORTER", "none")
	t.Setenv("RULES", impatientRules(t))
	startStack(t, "full,observability")
	admin := kadm.NewClient(connect(t))

	// These three go on until the end.
	provoke(t, admin, "slow", evenly, func(ctx context.Context, records []*kgo.Record, commit func(...*kgo.Record)) {
		pauseFor(ctx, 300*time.Millisecond)
		commit(records...)
	})
	provoke(t, admin, "poison", evenly, func(ctx context.Context, records []*kgo.Record, commit func(...*kgo.Record)) {
		for _, r := range records {
			if r.Partition == 2 && r.Offset == 10 {
				<-ctx.Done() // it tries again and again
			}
			commit(r)
		}
	})
	provoke(t, admin, "hot", func(i int) int32 { return int32(min(i%40, 5)) }, func(ctx context.Context, records []*kgo.Record, commit func(...*kgo.Record)) {
		commit(records...)
		if records[0].Partition == 5 {
			pauseFor(ctx, 200*time.Millisecond)
		}
	})
	t.Run("a consumer that is slower than the producers", func(t *testing.T) {
		says(t, "slow", "WARNING", "slow:", "falls behind")
		judged(t, "slow", "WARNING")
		fires(t, "GroupFallsBehind", `consumergroup="slow"`)
	})
	t.Run("a record that nobody can process", func(t *testing.T) {
		says(t, "poison", "STALLED", "poison:2", "nothing was committed")
		judged(t, "poison", "STALLED")
		fires(t, "GroupStalled", `consumergroup="poison"`)
	})
	t.Run("a key that has most of the records", func(t *testing.T) {
		says(t, "hot", "WARNING", "hot:5", "falls behind")
		judged(t, "hot", "HOT_PARTITION")
		fires(t, "HotPartition", `topic="hot"`)
	})
	t.Run("members that come and go", func(t *testing.T) {
		create(t, admin, "loop", 3)
		var members sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		defer members.Wait()
		defer cancel()
		for range 3 {
			members.Go(func() { comeAndGo(ctx, t, "loop") })
		}
		says(t, "loop", "", "group", "join anew")
		judged(t, "loop", "REBALANCE_LOOP")
		fires(t, "RebalanceLoop", `consumergroup="loop"`)
	})
	t.Run("a broker that is gone", func(t *testing.T) { brokerGone(t, admin) })
}

// brokerGone kills a broker that has the only replica of some partitions.
func brokerGone(t *testing.T, admin *kadm.Client) {
	responses, err := admin.CreateTopics(t.Context(), 6, 1, nil, "alone")
	if err = errors.Join(err, responses["alone"].Err); err != nil {
		t.Fatal(err)
	}
	well := func(_ context.Context, records []*kgo.Record, commit func(...*kgo.Record)) { commit(records...) }
	provoke(t, admin, "replicated", evenly, well)
	docker(t, "kill", container(t, "broker-3"))
	for alert, labels := range map[string]string{
		"ProgramDown": `instance="broker-3"`, "NodeFenced": "", "OfflinePartitions": "", "UnderReplicated": "",
	} {
		fires(t, alert, labels)
	}
	says(t, "replicated", "OK", "group", "Stable") // two replicas of each partition are there
	compose(t, "start", "broker-3")
	healthy(t, "broker-3")
}

// impatientRules copies the rules, with alerts that fire soon.
func impatientRules(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(root + "/deploy/prometheus/rules/cauce.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text = regexp.MustCompile(`(?m)^( +for: ).*$`).ReplaceAll(text, []byte("${1}10s"))
	folder := t.TempDir()
	// Prometheus is somebody else in its container.
	if err := errors.Join(os.Chmod(folder, 0o755), os.WriteFile(filepath.Join(folder, "cauce.yaml"), text, 0o644)); err != nil {
		t.Fatal(err)
	}
	return folder
}

// evenly spreads records over the six partitions.
func evenly(i int) int32 { return int32(i % 6) }

// provoke has some hundred records a second written to the topic and read by a group of three members, both of that name, until the
// test ends. The members hand what they poll to process, a partition at a time.
func provoke(t *testing.T, admin *kadm.Client, name string, partition func(i int) int32, process func(ctx context.Context, records []*kgo.Record, commit func(...*kgo.Record))) {
	t.Helper()
	create(t, admin, name, 3)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	producer := connect(t, kgo.DefaultProduceTopic(name), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(50*time.Millisecond))
	running.Go(func() {
		ticker := time.NewTicker(5 * time.Millisecond)
		defer ticker.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			producer.Produce(ctx, &kgo.Record{Partition: partition(i), Value: fmt.Append(nil, i)}, func(_ *kgo.Record, err error) {
				if err != nil && ctx.Err() == nil {
					t.Errorf("%s: producing: %v", name, err)
				}
			})
			select {
			case <-ticker.C:
			case <-ctx.Done():
			}
		}
	})
	for range 3 {
		// Small fetches: the client hands out what it has of one partition before it comes to the next.
		member := connect(t, kgo.ConsumerGroup(name), kgo.ConsumeTopics(name), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
			kgo.FetchMaxPartitionBytes(1<<10))
		running.Go(func() {
			defer member.Close()
			commit := func(records ...*kgo.Record) {
				if err := member.CommitRecords(ctx, records...); err != nil && ctx.Err() == nil {
					t.Logf("%s: committing: %v", name, err) // the records come again
				}
			}
			for ctx.Err() == nil {
				for _, records := range byPartition(member.PollRecords(ctx, 10).Records()) {
					process(ctx, records, commit)
				}
			}
		})
	}
	eventually(t, name+" consumes", func(ctx context.Context) error {
		groups, err := admin.DescribeGroups(ctx, name)
		if err == nil && (groups[name].State != "Stable" || len(groups[name].Members) != 3) {
			err = fmt.Errorf("it is %s with %d members", groups[name].State, len(groups[name].Members))
		}
		return err
	})
}

func byPartition(records []*kgo.Record) map[int32][]*kgo.Record {
	parts := map[int32][]*kgo.Record{}
	for _, r := range records {
		parts[r.Partition] = append(parts[r.Partition], r)
	}
	return parts
}

func pauseFor(ctx context.Context, pause time.Duration) {
	select {
	case <-time.After(pause):
	case <-ctx.Done():
	}
}

// comeAndGo joins the group again and again, and leaves as soon as it has partitions.
func comeAndGo(ctx context.Context, t *testing.T, group string) {
	for ctx.Err() == nil {
		assigned := make(chan struct{}, 1)
		member, err := kgo.NewClient(clientOptions(kgo.ConsumerGroup(group), kgo.ConsumeTopics(group),
			kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) {
				select {
				case assigned <- struct{}{}:
				default:
				}
			}))...)
		if err != nil {
			t.Error(err)
			return
		}
		select {
		case <-assigned:
		case <-ctx.Done():
		}
		member.Close()
	}
}

// says waits until `cauce group why` judges the group so ("" for whatever) and finds that of what the incident is about.
func says(t *testing.T, group, judgement, about, what string) {
	t.Helper()
	eventually(t, fmt.Sprintf("cauce group why %s says %q of %s", group, what, about), func(ctx context.Context) error {
		output, err := run(ctx, root+"/bin/cauce", "group", "why", group, "--bootstrap", external[0], "--interval", "10s", "--output", "json")
		var report struct {
			Judgement string
			Findings  []struct{ Judgement, About, What string }
		}
		// The exit code is the judgement's.
		if json.Unmarshal([]byte(output), &report) != nil {
			return fmt.Errorf("%w: %s", errors.Join(err), output)
		}
		if judgement != "" && report.Judgement != judgement {
			return fmt.Errorf("it says %s", output)
		}
		for _, f := range report.Findings {
			if strings.HasPrefix(f.About, about) && strings.Contains(f.What, what) {
				t.Logf("cauce group why %s: %s %s: %s", group, f.Judgement, f.About, f.What)
				return nil
			}
		}
		return fmt.Errorf("it says %s", output)
	})
}

// judged waits until the group's coordinator gives it that status.
func judged(t *testing.T, group, status string) {
	t.Helper()
	err := retry.Until(t.Context(), alertsWithin, func(ctx context.Context) error {
		samples, err := query(ctx, `cauce_consumergroup_status{consumergroup="`+group+`"} == 1`)
		if err != nil {
			return err
		}
		for _, s := range samples {
			if s.Metric["status"] == status {
				return nil
			}
		}
		return fmt.Errorf("it is %v", samples)
	})
	if err != nil {
		t.Errorf("%s is judged %s: not within %v: %v", group, status, alertsWithin, err)
	}
}
