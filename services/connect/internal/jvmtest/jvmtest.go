// Package jvmtest has what a JVM worker of Apache Kafka Connect 4.3.1 was seen to answer and to write; recordtest made the files.
package jvmtest

import (
	"embed"
	"encoding/json"
	"testing"
)

//go:embed testdata
var files embed.FS

// The names that the recorded worker was configured with.
const (
	Group       = "workers"
	ConfigTopic = "connect-configs"
	OffsetTopic = "connect-offsets"
	StatusTopic = "connect-status"
)

// Exchange is one request to the REST interface and its answer.
type Exchange struct {
	Method, Path, Body    string
	Status                int
	ContentType, Location string          `json:",omitempty"`
	Answer                json.RawMessage `json:",omitempty"`
	// Text is an answer that is not JSON.
	Text string `json:",omitempty"`
}

// Record is one record of an internal topic; a nil value is a tombstone.
type Record struct {
	Partition int32
	Offset    int64
	Key       string
	Value     *string
}

// Member is a worker in its group as DescribeGroups shows it.
type Member struct {
	ID, Protocol         string
	Metadata, Assignment []byte
}

// Validation is a configuration that the worker was asked to check.
type Validation struct {
	Config map[string]string
	Status int
	// Wrong are the keys that it has found something wrong with, in the order of its answer.
	Wrong []string
}

// Validations are of configurations of the file connectors, most of them with a fault.
func Validations(t testing.TB) []Validation { return load[[]Validation](t, "validations.json") }

// Exchanges are requests in the order in which they were sent.
func Exchanges(t testing.TB) []Exchange { return load[[]Exchange](t, "rest.json") }

// Records are those of a topic, in order of partition and offset.
func Records(t testing.TB, topic string) []Record {
	return load[map[string][]Record](t, "records.json")[topic]
}

// Members are two workers that share connectors.
func Members(t testing.TB) []Member { return load[[]Member](t, "group.json") }

func load[T any](t testing.TB, name string) T {
	t.Helper()
	b, err := files.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var v T
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return v
}
