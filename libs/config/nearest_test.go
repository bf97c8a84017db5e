package config

import (
	"slices"
	"testing"
)

func TestNearest(t *testing.T) {
	names := []string{"num.partitions", "log.retention.ms", "log.retention.bytes", "node.id"}
	tests := map[string]string{
		"num.partition":     "num.partitions",
		"num.partitinos":    "num.partitions",
		"log.retention.mss": "log.retention.ms",
		"log-retention-ms":  "log.retention.ms",
		"ndoe.id":           "node.id",
		"id":                "",
		"something.else":    "",
		"":                  "",
	}
	for name, want := range tests {
		if got := Nearest(name, slices.Values(names)); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", name, got, want)
		}
	}
}
