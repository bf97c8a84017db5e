// Package anywhere holds the Kafka APIs that every node with a listener answers alike: from its metadata image, or by
// having the active controller answer.
//
// There is one file per API key, headed by the versions and the KIPs it covers. The oldest version of each is the oldest
// that Apache Kafka 4 serves (KIP-896), the newest the newest that kmsg knows.
package anywhere

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/config"
	"github.com/cauce-stream/cauce/libs/kafka/groupapi"
	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/kafka/txnapi"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/node"
	"github.com/cauce-stream/cauce/libs/node/producerids"
)

// Options are what a process adds to its node.
type Options struct {
	// OwnGroupAPIs leaves the APIs of consumer groups to the process, which coordinates groups. Elsewhere they are
	// answered with NOT_COORDINATOR.
	OwnGroupAPIs bool
	// OwnTxnAPIs does the same with those of transactions, InitProducerId among them, for a process that coordinates transactions.
	OwnTxnAPIs bool
	// OwnLogDirs leaves DescribeLogDirs to the process, which is a broker.
	OwnLogDirs bool
	// Log may be nil.
	Log *zap.Logger
}

// Register adds the handlers to a router. They serve from the node's image of the moment, also before it is complete:
// whoever calls waits for Node.Ready before it accepts connections.
func Register(router *server.Router, n *node.Node, o Options) { register(router, n, o) }

// member is what the handlers need of a node.
type member interface {
	ID() int32
	Image() *metadata.Image
	Static() config.Values
	Forward(ctx context.Context, apiKey, version int16, body []byte, principal, clientID, clientHost string) ([]byte, error)
	AllocateProducerIDs(ctx context.Context) (first int64, count int32, err error)
}

// handlers are the APIs of one node.
type handlers struct {
	node              member
	router            *server.Router
	producerIDs       *producerids.IDs
	coordinatorTopics *coordinatorTopics
}

func register(router *server.Router, n member, o Options) {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	h := &handlers{node: n, router: router, producerIDs: producerids.New(n), coordinatorTopics: newCoordinatorTopics(n, o.Log)}
	if !o.OwnGroupAPIs {
		for _, r := range groupapi.Ranges() {
			router.Register(server.API{Key: r.Key, MinVersion: r.Min, MaxVersion: r.Max, Handle: notCoordinator(groupapi.Refuse), Inline: true})
		}
	}
	if !o.OwnTxnAPIs {
		for _, r := range txnapi.Ranges() {
			router.Register(server.API{Key: r.Key, MinVersion: r.Min, MaxVersion: r.Max, Handle: notCoordinator(txnapi.Refuse), Inline: true})
		}
		router.Register(server.API{Key: 22, MinVersion: 0, MaxVersion: 5, Handle: answering(h.initProducerID)})
	}
	if !o.OwnLogDirs {
		router.Register(server.API{Key: 35, MinVersion: 1, MaxVersion: 5, Handle: answering(h.describeLogDirs), Inline: true})
	}
	router.Register(
		server.API{Key: 3, MinVersion: 0, MaxVersion: 13, Handle: answering(h.metadata)},
		server.API{Key: 10, MinVersion: 0, MaxVersion: 6, Handle: answering(h.findCoordinator)},
		server.API{Key: 18, MinVersion: 0, MaxVersion: 5, Handle: answering(h.apiVersions), Inline: true},
		server.API{Key: 19, MinVersion: 2, MaxVersion: 7, Handle: h.forward},
		server.API{Key: 20, MinVersion: 1, MaxVersion: 6, Handle: h.forward},
		server.API{Key: 32, MinVersion: 1, MaxVersion: 4, Handle: answering(h.describeConfigs)},
		server.API{Key: 33, MinVersion: 0, MaxVersion: 2, Handle: h.forward},
		server.API{Key: 37, MinVersion: 0, MaxVersion: 3, Handle: h.forward},
		server.API{Key: 43, MinVersion: 0, MaxVersion: 2, Handle: h.forward},
		server.API{Key: 44, MinVersion: 0, MaxVersion: 1, Handle: h.forward},
		server.API{Key: 45, MinVersion: 0, MaxVersion: 1, Handle: h.forward},
		server.API{Key: 46, MinVersion: 0, MaxVersion: 0, Handle: h.forward},
		server.API{Key: 55, MinVersion: 0, MaxVersion: 2, Handle: h.forward},
		server.API{Key: 57, MinVersion: 0, MaxVersion: 2, Handle: h.forward},
		server.API{Key: 60, MinVersion: 0, MaxVersion: 2, Handle: answering(h.describeCluster)},
		server.API{Key: 64, MinVersion: 0, MaxVersion: 0, Handle: h.forward},
		server.API{Key: 74, MinVersion: 0, MaxVersion: 1, Handle: answering(h.listConfigResources)},
		server.API{Key: 75, MinVersion: 0, MaxVersion: 0, Handle: answering(h.describeTopicPartitions)},
		server.API{Key: 80, MinVersion: 0, MaxVersion: 1, Handle: h.forward},
		server.API{Key: 81, MinVersion: 0, MaxVersion: 0, Handle: h.forward},
	)
}

// notCoordinator answers a request about groups, or transactions, on a node that coordinates none.
func notCoordinator(refuse func(kmsg.Request, *kerr.Error) kmsg.Response) server.Handler {
	return func(r *server.Request) {
		q := kmsg.RequestForKey(r.Key)
		if err := r.Decode(q); err != nil {
			r.Fail(err)
			return
		}
		r.Reply(refuse(q, kerr.NotCoordinator))
	}
}

// answering makes a handler of a function from a decoded request to its response.
func answering[Q any, P interface {
	*Q
	kmsg.Request
}](answer func(r *server.Request, q P) kmsg.Response) server.Handler {
	return func(r *server.Request) {
		q := P(new(Q))
		if err := r.Decode(q); err != nil {
			r.Fail(err)
			return
		}
		r.Reply(answer(r, q))
	}
}

// codeOf is the Kafka error code that err wraps.
func codeOf(err error) int16 {
	if k, ok := errors.AsType[*kerr.Error](err); ok {
		return k.Code
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return kerr.RequestTimedOut.Code
	}
	return kerr.UnknownServerError.Code
}
