package localcluster

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// AwaitServing returns once every node with a Kafka listener tells clients of all the others: a client then has what it
// needs, whomever it asks.
func (c *Cluster) AwaitServing(ctx context.Context) error {
	var nodes []Node
	for _, n := range c.plan.Nodes {
		if n.Kafka != "" {
			nodes = append(nodes, n)
		}
	}
	return each(nodes, func(n Node) error {
		client, err := kgo.NewClient(kgo.SeedBrokers(n.Kafka), kgo.DisableClientMetrics())
		if err != nil {
			return err
		}
		defer client.Close()
		var last error
		err = poll(ctx, func() (bool, error) {
			request := kmsg.NewPtrMetadataRequest()
			request.Topics = []kmsg.MetadataRequestTopic{} // none
			response, err := request.RequestWith(ctx, client.SeedBrokers()[0])
			if err == nil && len(response.Brokers) < len(nodes) {
				err = fmt.Errorf("it knows %d of %d nodes", len(response.Brokers), len(nodes))
			}
			last = err
			return err == nil, nil
		})
		if err != nil {
			return fmt.Errorf("node %d does not serve: %w (%w)", n.ID, last, err)
		}
		return nil
	})
}
