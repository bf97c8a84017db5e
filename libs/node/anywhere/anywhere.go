// Package anywhere holds the Kafka APIs that every node with a listener answers alike: from its metadata image, or by
// having the active controller answer.
package anywhere

import (
	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/node"
)

// Options are what a process adds to its node.
type Options struct{}

// Register adds the handlers to a router.
func Register(router *server.Router, n *node.Node, o Options) {}
