package worker

import (
	"testing"

	"github.com/cauce-stream/cauce/services/connect/internal/status"
	"github.com/cauce-stream/cauce/services/connect/internal/topiclog"
	"github.com/cauce-stream/cauce/services/connect/internal/work"
)

// TestTopicsAreInUseAgainAfterAReset has a task that goes on using its topics say so once, and again once they were reset: of its connector or of another.
func TestTopicsAreInUseAgainAfterAReset(t *testing.T) {
	w := newLeader(t, &scripted{})
	w.states = newBoard(w)
	follow := func(r status.Record) { w.topics.followStatus(topiclog.Record{Key: []byte(r.Key), Value: r.Value}) }
	item := work.Item{Connector: "lines", Task: 1}
	use := w.states.using(item)
	// noted uses the topics, and has what the board notes of that written and read back.
	noted := func(use func(string), topics ...string) (n int) {
		for _, topic := range topics {
			use(topic)
		}
		notes := w.states.take()
		for _, note := range notes {
			follow(note.record)
		}
		return len(notes)
	}
	for _, step := range []struct {
		what   string
		before func()
		use    func(string)
		want   int
	}{
		{what: "first records", use: use, want: 2},
		{what: "further records", use: use},
		{what: "the task starts again", use: w.states.using(item)},
		{what: "one topic was reset", before: func() { follow(status.TopicRemovalRecord("lines", "orders")) }, use: use, want: 1},
		{what: "further records after that", use: use},
		{what: "another connector's was reset", before: func() { follow(status.TopicRemovalRecord("other", "orders")) }, use: use},
	} {
		if step.before != nil {
			step.before()
		}
		if got := noted(step.use, "orders", "bills", "orders"); got != step.want {
			t.Errorf("%s: %d topics are noted, want %d", step.what, got, step.want)
		}
		if topics := w.herder.Uses("lines", "orders") && w.herder.Uses("lines", "bills"); !topics {
			t.Errorf("%s: the topics are not in use", step.what)
		}
	}
}
