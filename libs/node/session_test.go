package node

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cauce-stream/cauce/libs/config"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
)

// TestHeartbeatsWithoutInterval has a heartbeat interval of nothing, and of less, which is no reason to send them without end.
func TestHeartbeatsWithoutInterval(t *testing.T) {
	for _, interval := range []string{"0", "-1"} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, func(c *Config) {
				var err error
				if c.Static, err = config.FromMap(configkeys.Broker(), map[string]string{"broker.heartbeat.interval.ms": interval}); err != nil {
					t.Fatal(err)
				}
			})
			r.fake.up()
			r.run()
			<-r.node.Ready()
			time.Sleep(time.Second)
			if _, beats, _ := r.fake.counts(); beats < 50 || beats > 110 {
				t.Errorf("interval %s: %d heartbeats in a second", interval, beats)
			}
			if err := r.end(); err != nil {
				t.Error(err)
			}
		})
	}
}
