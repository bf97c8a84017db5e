//go:build chaos

package chaos

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/tests/chaos/internal/schedule"
	"github.com/cauce-stream/cauce/tests/retry"
)

// replaceController has a controller that is not active die and lose its disk. As an operator would, it takes the lost voter
// out of the quorum, and has the new one vote, whatever else befalls the others meanwhile.
func (b *breaker) replaceController(ctx context.Context, s schedule.Step) error {
	if !b.replacing.TryLock() { // two of three that lost their disks are not the quorum's to survive
		b.note("%s: another one is not over", s.Fault)
		return nil
	}
	askCtx, cancel := context.WithTimeout(ctx, askTimeout)
	quorum, err := b.quorum(askCtx)
	cancel()
	if err != nil {
		b.replacing.Unlock()
		b.note("%s: nobody tells who votes: %v", s.Fault, err)
		return nil
	}
	active := quorum.LeaderID
	nodes, release := b.take(1, slices.DeleteFunc(slices.Clone(b.controllers), func(id int32) bool { return id == active })...)
	defer release()
	if len(nodes) == 0 {
		b.replacing.Unlock()
		b.note("%s: nobody is left to have it", s.Fault)
		return nil
	}
	id := nodes[0]
	var lost [16]byte // its disk
	for _, v := range quorum.CurrentVoters {
		if v.ReplicaID == id {
			lost = v.ReplicaDirectoryID
		}
	}
	b.note("%s of %d", s.Fault, id)
	if err := b.on(ctx, "kill", nodes); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(b.cluster.Dir, text(id), "data")); err != nil {
		return err
	}
	pause(s.For)
	// It serves once it votes.
	if _, err := b.cluster.Do(ctx, "start", "--wait=false", text(id)); err != nil {
		return err
	}
	began := time.Now()
	if err := retry.Until(ctx, convergeTimeout, func(ctx context.Context) error { return b.removeVoter(ctx, id, lost) }); err != nil {
		return fmt.Errorf("removing voter %d: %w", id, err)
	}
	if err := retry.Until(ctx, convergeTimeout, func(ctx context.Context) error { return b.addVoter(ctx, id) }); err != nil {
		return fmt.Errorf("adding voter %d: %w", id, err)
	}
	b.replacing.Unlock() // not on an error
	b.note("%s: %d votes again after %v", s.Fault, id, time.Since(began).Round(time.Millisecond))
	return nil
}

// removeVoter names the disk, as a request that is given up may still be done when the next one is a member.
func (b *breaker) removeVoter(ctx context.Context, id int32, disk [16]byte) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	request := kmsg.NewPtrRemoveRaftVoterRequest()
	request.VoterID, request.VoterDirectoryID = id, disk
	response, err := request.RequestWith(ctx, b.client)
	if err != nil {
		return err
	}
	return voterError(response.ErrorCode, response.ErrorMessage)
}

// addVoter asks for it unless it is done: the answer to the request may have got lost.
func (b *breaker) addVoter(ctx context.Context, id int32) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	quorum, err := b.quorum(ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(quorum.CurrentVoters, func(v kmsg.DescribeQuorumResponseTopicPartitionReplicaState) bool { return v.ReplicaID == id }) {
		return nil
	}
	request := kmsg.NewPtrAddRaftVoterRequest()
	request.VoterID = id
	response, err := request.RequestWith(ctx, b.client)
	if err != nil {
		return err
	}
	if err := voterError(response.ErrorCode, response.ErrorMessage); err != nil {
		return err
	}
	return fmt.Errorf("controller %d learns", id)
}

func voterError(code int16, message *string) error {
	err := kerr.ErrorForCode(code)
	if err != nil && message != nil {
		return fmt.Errorf("%w: %s", err, *message)
	}
	return err
}
