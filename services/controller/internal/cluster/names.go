package cluster

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
)

const (
	// maxTopicNameBytes leaves room in a file name for the partition and the
	// suffix of a deleted folder.
	maxTopicNameBytes = 249
	// clusterMetadataTopic is the name under which tools ask for the quorum.
	clusterMetadataTopic = "__cluster_metadata"
)

// checkTopicName refuses what Kafka refuses as the name of a new topic.
func checkTopicName(name string) error {
	invalid := func(reason string) error {
		return refuse(kerr.InvalidTopicException, "Topic name is invalid: %s", reason)
	}
	switch {
	case name == "":
		return invalid("the empty string is not allowed")
	case name == "." || name == "..":
		return invalid("'" + name + "' is not allowed")
	case len(name) > maxTopicNameBytes:
		return invalid("the length of '" + name + "' is longer than the max allowed length 249")
	case strings.ContainsFunc(name, notInTopicName):
		return invalid("'" + name + "' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'")
	}
	return nil
}

func notInTopicName(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return r != '.' && r != '_' && r != '-'
}

// sameMetricName maps names that metrics cannot tell apart to one.
func sameMetricName(name string) string { return strings.ReplaceAll(name, ".", "_") }
