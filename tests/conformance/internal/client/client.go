// Package client drives the Kafka clients of the conformance suite: Go ones in process, others through a driver program
// of one line of answer for each line of command.
package client

import (
	"context"

	"github.com/cauce-stream/cauce/tests/conformance/internal/workload"
)

// Codecs are the compression codecs of Kafka by name, in the order of their numbers.
var Codecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// Job names the records to write or read: the first Records of the workload, in Topic.
type Job struct {
	Topic      string
	Partitions int
	Records    int
	// Codec and Acks ("0", "1" or "all") are for writing only.
	Codec, Acks string
}

// Client is one client library under test.
type Client interface {
	// Name is unique among the clients and fit for a topic's name.
	Name() string
	// Codecs are the codecs it can write; it can read all of them.
	Codecs() []string
	// Writes and Reads say what it cannot express and what it cannot tell apart.
	Writes() workload.Shape
	Reads() workload.Shape
	// CreateTopic creates a topic with retention.ms=-1.
	CreateTopic(ctx context.Context, topic string, partitions int) error
	// Produce writes the job's records and returns once they are acknowledged as far as acks asks for.
	Produce(ctx context.Context, job Job) error
	// Consume reads the job's records from assigned partitions, without a group.
	Consume(ctx context.Context, job Job) ([]workload.PartitionDigest, error)
	// Close ends the client and what it started.
	Close() error
}
