package exit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func TestCode(t *testing.T) {
	_, missing := os.Open("/does/not/exist")
	refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	tests := []struct {
		name string
		err  error
		want int
	}{
		{"nothing wrong", nil, OK},
		{"unknown", errors.New("boom"), Failed},
		{"usage", Usagef("bad flag"), Usage},
		{"usage, wrapped", fmt.Errorf("topic: %w", Usagef("bad flag")), Usage},
		{"topic missing", fmt.Errorf("topic %q: %w", "x", Answer(kerr.UnknownTopicOrPartition, "")), NotFound},
		{"file missing", missing, NotFound},
		{"deadline", fmt.Errorf("describe: %w", context.DeadlineExceeded), Timeout},
		{"server timed out", kerr.RequestTimedOut, Timeout},
		{"refused", fmt.Errorf("unable to dial: %w", refused), Unreachable},
		{"exists", kerr.TopicAlreadyExists, Exists},
		{"denied", kerr.TopicAuthorizationFailed, Denied},
		{"interrupted", context.Canceled, Interrupted},
		{"explicit code wins", With(Timeout, kerr.TopicAlreadyExists), Timeout},
		{"joined, the same", errors.Join(kerr.UnknownTopicOrPartition, kerr.UnknownTopicOrPartition), NotFound},
		{"joined, different", errors.Join(kerr.UnknownTopicOrPartition, kerr.TopicAlreadyExists), Failed},
		{"shards", &kadm.ShardErrors{Errs: []kadm.ShardError{{Err: refused}, {Err: refused}}}, Unreachable},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := Code(test.err); got != test.want {
				t.Errorf("Code(%v) = %d, want %d", test.err, got, test.want)
			}
		})
	}
}

func TestWithKeepsNil(t *testing.T) {
	if err := With(Usage, nil); err != nil {
		t.Fatalf("With(nil) = %v", err)
	}
}

func TestAnswer(t *testing.T) {
	tests := []struct {
		err     error
		message string
		want    string
	}{
		{kerr.TopicAlreadyExists, "", "Topic with this name already exists (TOPIC_ALREADY_EXISTS)"},
		{kerr.InvalidConfig, "Invalid value -5 for retention.ms.", "Invalid value -5 for retention.ms (INVALID_CONFIG)"},
		{kerr.UnknownTopicOrPartition, "This server does not host this topic-partition.", "does not exist (UNKNOWN_TOPIC_OR_PARTITION)"},
		{errors.New("boom"), "ignored", "boom"},
	}
	for _, test := range tests {
		if got := Answer(test.err, test.message); got.Error() != test.want || !errors.Is(got, test.err) {
			t.Errorf("Answer(%v, %q) = %q, want %q wrapping the cause", test.err, test.message, got, test.want)
		}
	}
}
