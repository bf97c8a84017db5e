package broker

import (
	"fmt"
	"testing"
	"time"

	"github.com/cauce-stream/cauce/libs/metadata"
)

// The number of fetchers changes while records are replicated.
func TestFetchersAreDealtOutAnew(t *testing.T) {
	c := startMembers(t, 2)
	var topics []metadata.TopicID
	for i := range 8 {
		topics = append(topics, c.create(fmt.Sprint("t", i), 1))
	}
	write := func(value string) {
		t.Helper()
		for _, id := range topics {
			if err := c.produce(1, id, -1, value); err != nil {
				t.Fatal(err)
			}
		}
	}
	write("one fetcher")
	before, _, _ := c.members[1].fetches.SessionStats()
	c.setBrokerConfig("num.replica.fetchers", "4")
	write("four fetchers")
	for limit := time.Now().Add(20 * time.Second); ; {
		if sessions, _, _ := c.members[1].fetches.SessionStats(); sessions > before {
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("the leader has %d fetch sessions, as before", before)
		}
	}
	c.setBrokerConfig("num.replica.fetchers", "1")
	write("one fetcher again")
}
