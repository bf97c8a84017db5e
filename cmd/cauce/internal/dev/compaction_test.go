package dev

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// TestOffsetsAreCompacted commits offsets again and again until their topic is compacted, and has the coordinator load what is
// left of it.
func TestOffsetsAreCompacted(t *testing.T) {
	dir := t.TempDir()
	v := values(t, dir, "offsets.topic.num.partitions", "1", "offsets.topic.segment.bytes", "1048576", "offsets.topic.replication.factor", "1",
		"log.cleaner.backoff.ms", "100")
	c := start(t, v)
	c.createTopic("t", 10, nil)
	client := c.client()
	admin := kadm.NewClient(client)
	bulk := strings.Repeat("x", 4000) // so that segments fill
	commit := func(group string, at int64) {
		t.Helper()
		var offsets kadm.Offsets
		for p := range int32(10) {
			offsets.Add(kadm.Offset{Topic: "t", Partition: p, At: at + int64(p), LeaderEpoch: -1, Metadata: bulk})
		}
		if err := admin.CommitAllOffsets(t.Context(), group, offsets); err != nil {
			t.Fatal(err)
		}
	}
	commit("gone", 1)
	if _, err := admin.DeleteGroup(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	const rounds = 100
	for i := range int64(rounds) {
		commit("a", i)
		commit("b", 1000+i)
	}
	const records = rounds * 20
	for end := time.Now().Add(startLimit); cleanedTo(t, dir) < records*8/10; {
		if time.Now().After(end) {
			t.Fatalf("compacted up to %d of %d", cleanedTo(t, dir), records)
		}
		commit("c", 5)
	}
	check := func(admin *kadm.Client) {
		t.Helper()
		for group, first := range map[string]int64{"a": rounds - 1, "b": 1000 + rounds - 1, "c": 5} {
			got, err := admin.FetchOffsets(t.Context(), group)
			if err != nil {
				t.Fatal(err)
			}
			for p := range int32(10) {
				if o, ok := got.Lookup("t", p); !ok || o.At != first+int64(p) {
					t.Errorf("group %s, partition %d: %v %d, want %d", group, p, ok, o.At, first+int64(p))
				}
			}
		}
		if got, err := admin.FetchOffsets(t.Context(), "gone"); err != nil || len(got) > 0 {
			t.Errorf("a group that was deleted: %v, %v", got, err)
		}
	}
	check(admin)
	client.Close()
	c.close()

	c = start(t, v)
	client = c.client()
	defer client.Close()
	check(kadm.NewClient(client))
}

// cleanedTo is the offset up to which the offsets topic was compacted.
func cleanedTo(t *testing.T, dir string) (offset int64) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*", "cleaner-offset-checkpoint"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range found {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if rest, ok := strings.CutPrefix(lines.Text(), "__consumer_offsets 0 "); ok {
				if _, err := fmt.Sscan(rest, &offset); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return offset
}
