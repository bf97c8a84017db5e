//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// creations is a load of requests that only the active controller can answer.
type creations struct {
	client *kgo.Client
	admin  *kadm.Client
	stop   context.CancelFunc
	done   sync.WaitGroup

	mu       sync.Mutex
	answered []string
	last     time.Time // of the newest answer
	faults   []error
}

// startCreations has workers create one topic after the other.
func startCreations(t *testing.T, bootstrap []string, workers int) *creations {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	c := &creations{client: client, admin: kadm.NewClient(client), stop: stop, last: time.Now()}
	t.Cleanup(func() {
		stop()
		c.done.Wait()
		client.Close()
	})
	for w := range workers {
		c.done.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				c.create(ctx, fmt.Sprintf("t-%d-%d", w, i))
			}
		})
	}
	return c
}

func (c *creations) create(ctx context.Context, name string) {
	responses, err := c.admin.CreateTopics(ctx, 1, 1, nil, name)
	if err == nil {
		err = responses[name].Err
	}
	if errors.Is(err, kerr.TopicAlreadyExists) { // a request that had to be sent twice
		err = nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.answered, c.last = append(c.answered, name), time.Now()
	case ctx.Err() == nil:
		c.faults = append(c.faults, fmt.Errorf("creating %s: %w", name, err))
	}
}

func (c *creations) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.answered)
}

// goOn returns how long it took until ten more requests were answered that were not before.
func (c *creations) goOn(t *testing.T) time.Duration {
	t.Helper()
	began, from := time.Now(), c.count()
	eventually(t, "creations go on", func(context.Context) error {
		if c.count() < from+10 {
			return errors.New("they do not")
		}
		return nil
	})
	return time.Since(began)
}

// quorum asks for the state of the controllers.
func (c *creations) quorum(ctx context.Context) (kmsg.DescribeQuorumResponseTopicPartition, error) {
	request := kmsg.NewPtrDescribeQuorumRequest()
	topic, partition := kmsg.NewDescribeQuorumRequestTopic(), kmsg.NewDescribeQuorumRequestTopicPartition()
	topic.Topic = "__cluster_metadata"
	topic.Partitions = append(topic.Partitions, partition)
	request.Topics = append(request.Topics, topic)
	response, err := request.RequestWith(ctx, c.client)
	if err != nil {
		return kmsg.DescribeQuorumResponseTopicPartition{}, err
	}
	p := response.Topics[0].Partitions[0]
	return p, errors.Join(kerr.ErrorForCode(response.ErrorCode), kerr.ErrorForCode(p.ErrorCode))
}

func (c *creations) leader(t *testing.T) string {
	t.Helper()
	id := int32(-1)
	eventually(t, "a controller leads", func(ctx context.Context) error {
		q, err := c.quorum(ctx)
		id = q.LeaderID
		return err
	})
	return fmt.Sprint(id)
}

// TestControllersComeAndGo kills, stops, freezes and cuts off the active one of three controllers under a load of requests,
// and kills all three: whatever was answered is there in the end, and each time requests soon go on.
func TestControllersComeAndGo(t *testing.T) {
	l := newLab(t, "--controllers", "3", "--brokers", "2", "--groupcoords", "0")
	_, bootstrap := l.of("broker")
	load := startCreations(t, bootstrap, 4)
	load.goOn(t)
	others := func(leader string) string {
		ids, _ := l.of("controller")
		var rest []string
		for _, id := range ids {
			if fmt.Sprint(id) != leader {
				rest = append(rest, fmt.Sprint(id))
			}
		}
		return strings.Join(rest, ",")
	}
	faults := []struct {
		name       string
		fail, mend func(leader string)
	}{
		{"killed", func(leader string) { l.do("kill", leader) }, func(leader string) { l.do("start", leader) }},
		{"stopped", func(leader string) { l.do("stop", leader) }, func(leader string) { l.do("start", leader) }},
		{"frozen", func(leader string) { l.do("pause", leader) }, func(leader string) { l.do("resume", leader) }},
		{"cut off", func(leader string) { l.do("partition", leader, others(leader)) }, func(string) { l.do("heal") }},
	}
	for _, fault := range faults {
		if fault.name == "cut off" && os.Geteuid() != 0 {
			t.Log("no partitions without root")
			continue
		}
		leader := load.leader(t)
		fault.fail(leader)
		t.Logf("controller %s %s: ten more requests answered after %v", leader, fault.name, load.goOn(t))
		fault.mend(leader)
		load.goOn(t)
	}
	ids, _ := l.of("controller")
	for _, id := range ids {
		l.do("kill", fmt.Sprint(id))
	}
	for _, id := range ids {
		l.do("start", "--wait=false", fmt.Sprint(id))
	}
	t.Logf("all controllers killed and started: ten more requests answered after %v", load.goOn(t))

	load.stop()
	load.done.Wait()
	for _, err := range load.faults {
		t.Error(err)
	}
	load.agree(t, len(ids), bootstrap)
}

// agree wants all controllers to have what is committed, and every node to know every topic whose creation was answered.
func (c *creations) agree(t *testing.T, controllers int, bootstrap []string) {
	t.Helper()
	eventually(t, "the controllers agree", func(ctx context.Context) error {
		q, err := c.quorum(ctx)
		if err != nil {
			return err
		}
		if len(q.CurrentVoters) != controllers {
			t.Fatalf("voters are %v", q.CurrentVoters)
		}
		for _, v := range q.CurrentVoters {
			if v.LogEndOffset < q.HighWatermark {
				return fmt.Errorf("controller %d is at %d of %d", v.ReplicaID, v.LogEndOffset, q.HighWatermark)
			}
		}
		return nil
	})
	if len(c.answered) == 0 {
		t.Error("nothing was answered")
	}
	for _, seed := range bootstrap { // a node that had to look for another server of the bus may be behind for a while
		client, err := kgo.NewClient(kgo.SeedBrokers(seed))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		eventually(t, "every topic whose creation was answered is known at "+seed, func(ctx context.Context) error {
			response, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, client.SeedBrokers()[0])
			if err != nil {
				return err
			}
			known := map[string]bool{}
			for _, topic := range response.Topics {
				known[*topic.Topic] = true
			}
			lost := slices.DeleteFunc(slices.Clone(c.answered), func(name string) bool { return known[name] })
			if len(lost) > 0 {
				return fmt.Errorf("%d of %d are not, among them %s", len(lost), len(c.answered), lost[0])
			}
			return nil
		})
	}
	t.Logf("%d creations answered", len(c.answered))
}
