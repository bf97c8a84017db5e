// Package cluster is what the active controller decides: which nodes belong to
// the cluster, where partitions live, who leads them, what configs and features
// hold. Each decision is a function of the metadata image, an Env and a request,
// and its result is an answer and the records to commit. The caller proposes the
// records, applies them once they are committed, and answers only then.
//
// The package is pure: no clock, network, goroutine, logger or random source of
// its own, and nothing is read but the arguments. It keeps no state either; the
// one thing that a controller knows beyond the image, when it last heard of each
// node, is a Sessions value that the caller owns.
//
// Error codes, and messages where a client shows them, follow Apache Kafka's
// controller (KIP-500, KIP-631).
package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
	"github.com/cauce-stream/cauce/libs/security"
)

// maxRecordsPerRequest bounds what one request may change, so that no client
// can make an entry of the metadata log too large to replicate. Kafka stops at
// 10,000 records.
const maxRecordsPerRequest = 100_000

// Env is what a decision depends on besides the image and the request.
type Env struct {
	// NowMs is the time in milliseconds since 1970. It must not go backwards
	// from call to call.
	NowMs int64
	// Rand picks ids and the first replicas of new topics. It must be seeded
	// with at least 128 bits that nobody can guess: topic ids come from it.
	Rand *rand.Rand
	// Static is the configuration of the controller's own process.
	Static configkeys.Values
	// ControllerID is the controller's node id.
	ControllerID int32
	// Features are the levels that the controller supports; those of
	// metadata.SupportedFeatures but in tests.
	Features map[string]metadata.FeatureRange
	// Quorum is read by DescribeQuorum only.
	Quorum Quorum
}

// Outcome is a decision. The records, which may be none, must be committed and
// applied before the response is sent; if they cannot be, the response is void.
type Outcome struct {
	// Response is nil when the request is none of the controller's.
	Response kmsg.Response
	Records  []*metadatapb.Record
}

// Handle decides an admin request. The response has the request's version.
// Authorisation is not looked at yet: every principal may do everything, but
// that only nodes create the coordinators' topics.
func Handle(im *metadata.Image, env Env, req kmsg.Request, principal security.Principal) Outcome {
	switch r := req.(type) {
	case *kmsg.CreateTopicsRequest:
		return createTopics(im, env, r, principal)
	case *kmsg.DeleteTopicsRequest:
		return deleteTopics(im, env, r)
	case *kmsg.AlterConfigsRequest:
		return alterConfigs(im, env, r)
	case *kmsg.CreatePartitionsRequest:
		return createPartitions(im, env, r)
	case *kmsg.ElectLeadersRequest:
		return electLeaders(im, env, r)
	case *kmsg.AlterPartitionAssignmentsRequest:
		return alterPartitionReassignments(im, env, r)
	case *kmsg.ListPartitionReassignmentsRequest:
		return listPartitionReassignments(im, r)
	case *kmsg.IncrementalAlterConfigsRequest:
		return incrementalAlterConfigs(im, env, r)
	case *kmsg.DescribeQuorumRequest:
		return describeQuorum(env, r)
	case *kmsg.UpdateFeaturesRequest:
		return updateFeatures(im, env, r)
	case *kmsg.UnregisterBrokerRequest:
		return unregisterBroker(im, env, r)
	}
	return Outcome{}
}

// Error is a refusal: a Kafka error code, reached by errors.As, and the message
// that goes to the client.
type Error struct {
	Code    *kerr.Error
	Message string
}

// Error is the message.
func (e *Error) Error() string { return e.Message }

// Unwrap is the code.
func (e *Error) Unwrap() error { return e.Code }

func refuse(code *kerr.Error, format string, args ...any) error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// answer splits an error into the code and message of a response. A code
// without a message of its own lets the client use its own words.
func answer(err error) (code int16, message *string) {
	if err == nil {
		return 0, nil
	}
	if bare, ok := err.(*kerr.Error); ok {
		return bare.Code, nil
	}
	text := err.Error()
	var k *kerr.Error
	if !errors.As(err, &k) {
		k = kerr.UnknownServerError
	}
	return k.Code, &text
}

// layers are the broker keys as the controller's node has them. Kafka, too,
// resolves the defaults of topics with the configs of the active controller.
func layers(im *metadata.Image, env Env) configkeys.Layers {
	return configkeys.LayersOf(env.Static, env.ControllerID, im)
}

// NewID is a random id for a topic, cluster or process: a UUID of version 4,
// never one that starts with "-" in Kafka's spelling, which tools would take
// for a flag.
func NewID(r *rand.Rand) [16]byte {
	for {
		var id [16]byte
		for i := range 2 {
			for j, v := 0, r.Uint64(); j < 8; j++ {
				id[8*i+j] = byte(v >> (8 * j))
			}
		}
		id[6] = id[6]&0x0f | 0x40
		id[8] = id[8]&0x3f | 0x80
		if metadata.TopicID(id).String()[0] != '-' {
			return id
		}
	}
}

// Activate are the first records of a new term: the controller's claim, and for
// a cluster that does not exist yet, its id and features.
func Activate(im *metadata.Image, env Env, term int64, newClusterID string) []*metadatapb.Record {
	var recs []*metadatapb.Record
	if im.ClusterID() == "" {
		recs = append(recs, clusterRecord(newClusterID))
		recs = append(recs, featureRecords(metadata.InitialFeatures())...)
	}
	return append(recs, leaderChangeRecord(env.ControllerID, term))
}
