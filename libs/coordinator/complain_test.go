package coordinator

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// TestAPartitionThatIsNotHostedYet is worth a warning once it takes longer than hosting does, other failures at once.
func TestAPartitionThatIsNotHostedYet(t *testing.T) {
	for _, c := range []struct {
		err   error
		lasts time.Duration
		warns bool
	}{
		{kerr.UnknownTopicOrPartition, hostingTime - time.Second, false},
		{kerr.NotLeaderForPartition, hostingTime - time.Second, false},
		{kerr.UnknownTopicOrPartition, 4 * hostingTime, true},
		{kerr.NotEnoughReplicas, time.Second, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			core, logs := observer.New(zap.WarnLevel)
			l := newMemLog()
			over := time.Now().Add(c.lasts)
			l.setPlan(func(memCall) fault {
				if time.Now().Before(over) {
					return fault{err: c.err}
				}
				return fault{}
			})
			r, err := New(Config{Name: "group"}, Deps{Log: l, Logger: zap.New(core)}, newKV)
			if err != nil {
				t.Fatal(err)
			}
			r.Own(shardID, l.move(shardID))
			time.Sleep(c.lasts + 2*hostingTime)
			if warned := logs.Len() > 0; warned != c.warns {
				t.Errorf("%v for %v: %d warnings", c.err, c.lasts, logs.Len())
			}
			r.Close()
			l.landing.Wait()
		})
	}
}
