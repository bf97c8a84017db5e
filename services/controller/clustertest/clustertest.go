// Package clustertest lets tests outside of this module drive what the active controller decides, without its shell: package
// cluster's pure functions under the names that they have there. Programs do not import it (tests/lint).
package clustertest

import "github.com/cauce-stream/cauce/services/controller/internal/cluster"

// What decisions are made of; see package cluster.
type (
	Env                 = cluster.Env
	Outcome             = cluster.Outcome
	Sessions            = cluster.Sessions
	Registration        = cluster.Registration
	Beat                = cluster.Beat
	BeatAnswer          = cluster.BeatAnswer
	Absence             = cluster.Absence
	PartitionAlteration = cluster.PartitionAlteration
	ReplicaEpoch        = cluster.ReplicaEpoch
	AlteredPartition    = cluster.AlteredPartition
)

// The decisions; see package cluster. Those about nodes are methods of Sessions.
var (
	Activate        = cluster.Activate
	NewSessions     = cluster.NewSessions
	Handle          = cluster.Handle
	AlterPartitions = cluster.AlterPartitions
	BalanceLeaders  = cluster.BalanceLeaders
)
