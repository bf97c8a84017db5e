// Package exit turns errors into the exit codes that scripts may rely on, and the faults a cluster
// answers with into sentences that say what went wrong.
package exit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"syscall"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// The exit codes of every command. They are part of the interface: a code never changes its meaning.
const (
	OK          = 0   // everything that was asked for happened
	Failed      = 1   // anything that has no code of its own, or several different faults at once
	Usage       = 2   // the command line itself is wrong; nothing was sent
	NotFound    = 3   // a named topic, partition, offset, node or file does not exist
	Timeout     = 4   // it did not happen within --timeout or --idle
	Unreachable = 5   // nothing answers at the bootstrap addresses
	Exists      = 6   // a topic of that name already exists
	Denied      = 7   // authentication or authorization failed
	Interrupted = 130 // ended by SIGINT or SIGTERM before the work was done
)

// Summary is the table of exit codes as the help text shows it.
const Summary = `  0    done
  1    failed
  2    wrong usage; nothing was sent
  3    a named topic, partition, offset, node or file does not exist
  4    timed out
  5    nothing answers at the bootstrap addresses
  6    already exists
  7    not authenticated or not allowed
  130  interrupted before the work was done`

type coded struct {
	code int
	err  error
}

func (e *coded) Error() string { return e.err.Error() }
func (e *coded) Unwrap() error { return e.err }

// With gives err an exit code that wins over what Code would derive from its cause. A nil err stays nil.
func With(code int, err error) error {
	if err == nil {
		return nil
	}
	return &coded{code, err}
}

// Usagef reports a wrong command line.
func Usagef(format string, args ...any) error {
	return With(Usage, fmt.Errorf(format, args...))
}

// Code returns the exit code for err. Errors joined together share a code only when all of them have it.
func Code(err error) int {
	if err == nil {
		return OK
	}
	if c, ok := errors.AsType[*coded](err); ok {
		return c.code
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return common(joined.Unwrap())
	}
	if shards, ok := errors.AsType[*kadm.ShardErrors](err); ok && len(shards.Errs) > 0 {
		errs := make([]error, len(shards.Errs))
		for i, shard := range shards.Errs {
			errs[i] = shard.Err
		}
		return common(errs)
	}
	if e, ok := errors.AsType[*kerr.Error](err); ok {
		return ofKafka(e)
	}
	return ofSystem(err)
}

func common(errs []error) int {
	code := Code(errs[0])
	for _, err := range errs[1:] {
		if Code(err) != code {
			return Failed
		}
	}
	return code
}

func ofKafka(e *kerr.Error) int {
	switch e {
	case kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.OffsetOutOfRange, kerr.BrokerIDNotRegistered,
		kerr.GroupIDNotFound, kerr.ResourceNotFound, kerr.TransactionalIDNotFound:
		return NotFound
	case kerr.RequestTimedOut:
		return Timeout
	case kerr.TopicAlreadyExists, kerr.DuplicateResource:
		return Exists
	case kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.ClusterAuthorizationFailed,
		kerr.TransactionalIDAuthorizationFailed, kerr.DelegationTokenAuthorizationFailed, kerr.SaslAuthenticationFailed:
		return Denied
	}
	return Failed
}

func ofSystem(err error) int {
	var op *net.OpError
	switch {
	case errors.As(err, &op) && op.Op == "dial", errors.Is(err, syscall.ECONNREFUSED):
		return Unreachable
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout
	case errors.Is(err, context.Canceled):
		return Interrupted
	case errors.Is(err, fs.ErrNotExist):
		return NotFound
	}
	return Failed
}
