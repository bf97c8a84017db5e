// Package replicatest lets tests outside of this module drive the leader and the followers of a partition without a broker
// around them: package replication's pure types and functions under the names that they have there. Programs do not import
// it (tests/lint).
package replicatest

import "github.com/cauce-stream/cauce/services/broker/internal/replication"

// What a leader and a follower know and tell each other; see package replication.
type (
	Leader   = replication.Leader
	Rules    = replication.Rules
	Fetch    = replication.Fetch
	Member   = replication.Member
	Proposal = replication.Proposal
	Decision = replication.Decision
	History  = replication.History
	Resume   = replication.Resume
)

// The rules; see package replication. Those of a leader are methods of Leader.
var (
	NewLeader  = replication.NewLeader
	Diverges   = replication.Diverges
	TruncateTo = replication.TruncateTo
	OutOfRange = replication.OutOfRange
)
