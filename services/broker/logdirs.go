package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/bus/controlpb"
	"github.com/cauce-stream/cauce/libs/metadata"
)

const (
	// maxFailedPerRequest bounds one report of replicas that have failed.
	maxFailedPerRequest = 1000
	// reportPause is between two reports of which the first failed.
	reportPause = 100 * time.Millisecond
)

// failReplicas has the controller take replicas of this node out of service (node.FailReplicas).
type failReplicas func(ctx context.Context, failed []*controlpb.FailReplicasRequest_Topic) error

// watchLogDirs tells the controller which replicas have failed with their log directory, until ctx ends, no directory is left, or
// no controller can be told for log.dir.failure.timeout.ms: clients would take this node for a leader that it is not any more.
func (s *Service) watchLogDirs(ctx context.Context, report failReplicas) error {
	limit := s.cfg.Static.DurationMs("log.dir.failure.timeout.ms")
	var since time.Time // the first of the reports that failed in a row
	for {
		if err := s.everyDirFailed(); err != nil {
			return err
		}
		var again <-chan time.Time
		if failed := s.failedReplicas(); len(failed) > 0 {
			if since.IsZero() {
				since = time.Now()
			}
			err := reportUntil(ctx, since.Add(limit), report, failed)
			switch {
			case err == nil:
				since = time.Time{}
			case ctx.Err() != nil:
				return nil
			case time.Since(since) >= limit:
				return fmt.Errorf("no controller could be told of a failed log directory for %v (log.dir.failure.timeout.ms): %w", limit, err)
			default:
				s.log.Warn("replicas that failed are not reported yet", zap.Error(err))
			}
			again = time.After(reportPause) // there may be more
		}
		select {
		case <-s.dirFailed:
		case <-again:
		case <-ctx.Done():
			return nil
		}
	}
}

func reportUntil(ctx context.Context, deadline time.Time, report failReplicas, failed []*controlpb.FailReplicasRequest_Topic) error {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	return report(ctx, failed)
}

// everyDirFailed is an error when no log directory is left.
func (s *Service) everyDirFailed() error {
	var all []error
	for _, dir := range s.logs.Describe() {
		if dir.Err == nil {
			return nil
		}
		all = append(all, dir.Err)
	}
	return fmt.Errorf("every log directory has failed: %w", errors.Join(all...))
}

// failedReplicas are those that the metadata does not have as offline yet, at most as many as one request may have.
func (s *Service) failedReplicas() []*controlpb.FailReplicasRequest_Topic {
	var failed []*controlpb.FailReplicasRequest_Topic
	var last metadata.TopicID
	n := 0
	for p := range s.parts.Failed() {
		if n == maxFailedPerRequest {
			break
		}
		if id := p.Topic.ID; n == 0 || id != last {
			failed = append(failed, &controlpb.FailReplicasRequest_Topic{TopicId: id[:]})
			last = id
		}
		t := failed[len(failed)-1]
		t.Partitions = append(t.Partitions, p.ID)
		n++
	}
	return failed
}

// noteDirFailure has watchLogDirs look again. It does not wait.
func (s *Service) noteDirFailure() {
	select {
	case s.dirFailed <- struct{}{}:
	default:
	}
}
