package watched

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/tests/devserver"
)

// Node is a server of the experiment's own.
type Node struct {
	*devserver.Server
	Client *kadm.Client
	dir    string
}

// Up starts a node that looks at the lag of groups every so many milliseconds. Down ends it.
func Up(ctx context.Context, lagIntervalMs int) (n *Node, err error) {
	n = &Node{}
	if n.dir, err = os.MkdirTemp("", "lab"); err != nil {
		return nil, err
	}
	n.Server, err = devserver.Start(ctx, devserver.Options{DataDir: n.dir, Args: []string{"--set", fmt.Sprint("group.lag.interval.ms=", lagIntervalMs)}})
	if err == nil {
		var cl *kgo.Client
		if cl, err = kgo.NewClient(kgo.SeedBrokers(n.Bootstrap), kgo.MetadataMinAge(50*time.Millisecond)); err == nil {
			n.Client = kadm.NewClient(cl)
			return n, nil
		}
	}
	n.Down()
	return nil, err
}

// Down ends the node and removes its data.
func (n *Node) Down() {
	if n.Client != nil {
		n.Client.Close()
	}
	if n.Server != nil {
		n.Kill()
	}
	_ = os.RemoveAll(n.dir) // what is left is in the system's folder for such
}
