package topiclog

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func ensure(t *testing.T, b *brokers, single bool) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	return Ensure(ctx, b.deps(), []string{"broker-1:9092"}, Topic{
		Name: topicName, Partitions: 1, ReplicationFactor: -1, Settings: map[string]string{"min.insync.replicas": "2"}, Single: single,
	}, time.Second)
}

func TestMissingTopicIsMade(t *testing.T) {
	for _, code := range []int16{0, kerr.TopicAlreadyExists.Code} {
		synctest.Test(t, func(t *testing.T) {
			b := newBrokers(t, 0)
			b.createCode = code
			if err := ensure(t, b, true); err != nil {
				t.Fatal(err)
			}
			if len(b.created) != 1 {
				t.Fatalf("%d requests", len(b.created))
			}
			topic := b.created[0].Topics[0]
			if topic.Topic != topicName || topic.NumPartitions != 1 || topic.ReplicationFactor != -1 || len(topic.Configs) != 2 {
				t.Errorf("asked for %+v", topic)
			}
			if c := topic.Configs[0]; c.Name != policyKey || *c.Value != compact {
				t.Errorf("the first config is %s=%s", c.Name, *c.Value)
			}
		})
	}
}

// TestTooFewBrokers has enough of them after a while. Until then the brokers are not asked all the time, and the log does not fill.
func TestTooFewBrokers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBrokers(t, 0)
		core, seen := observer.New(zap.WarnLevel)
		b.log = zap.New(core)
		b.createCode = kerr.InvalidReplicationFactor.Code
		time.AfterFunc(100*time.Second, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.createCode = 0
		})
		began := time.Now()
		if err := ensure(t, b, true); err != nil || time.Since(began) < 100*time.Second || time.Since(began) > 100*time.Second+maxBackoff {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if n := len(b.created); n < 20 || n > 25 {
			t.Errorf("%d requests", n)
		}
		if n := seen.Len(); n != 4 { // at once, and after 30, 60 and 90 s
			t.Errorf("%d lines in the log", n)
		}
	})
}

func TestUnfitTopics(t *testing.T) {
	for _, test := range []struct {
		partitions int
		single     bool
		policy     string
		want       string
	}{
		{1, true, compact, ""}, {3, false, compact, ""}, {3, true, compact, "3 partitions"}, {1, true, "delete", "cleanup.policy=delete"}, {1, true, "compact,delete", "cleanup.policy=compact,delete"},
		{1, true, "", ""}, // it may not be told
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBrokers(t, test.partitions)
			b.policy = test.policy
			err := ensure(t, b, test.single)
			if test.want == "" && err != nil || test.want != "" && (!errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%+v: %v", test, err)
			}
		})
	}
}

func TestWhatDoesNotHelp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBrokers(t, 0)
		b.createCode = kerr.TopicAuthorizationFailed.Code
		if err := ensure(t, b, true); !errors.Is(err, kerr.TopicAuthorizationFailed) {
			t.Errorf("%v", err)
		}
		b.down["broker-1:9092"] = true
		if err := ensure(t, b, true); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}
