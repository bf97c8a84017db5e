// Package uniform spreads partitions evenly over members and moves as few as it can, as Apache Kafka's uniform assignor
// does for members with the same and with different subscriptions (KIP-848).
package uniform

import (
	"context"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/plugins/assignors/internal/plan"
)

// Assignor is the uniform assignor. Balance comes before stickiness: with one subscription in the group, members differ
// by one partition at most.
type Assignor struct{}

// Info names it as Kafka's clients do.
func (Assignor) Info() plugin.Info {
	return plugin.Info{Name: "uniform", Version: "1.0.0", Doc: "Spreads partitions evenly and moves as few as it can."}
}

// Assign keeps what members have, fills up, and then evens out.
func (Assignor) Assign(_ context.Context, r *plugin.Request) (plugin.Response, error) {
	p := plan.New(r)
	p.Fill(nil)
	p.Even()
	return p.Response(), nil
}
