package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
)

func add(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "add NODE",
		Short: "Have a controller vote that waits for it",
		Long: `Have a controller vote that waits for it: one that runs with an empty metadata log, and that all controllers
have among controller.peers. It gets the log first; the command returns when it votes.

A controller that lost its disk is removed first, then added.`,
		Example: "  cauce quorum add 104",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return change(cmd.Context(), s, args[0], func(id int32, _ quorum) kmsg.Request {
				request := kmsg.NewPtrAddRaftVoterRequest()
				request.VoterID, request.TimeoutMillis = id, int32(s.Timeout.Milliseconds())
				return request
			}, true)
		},
	}
}

func remove(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:     "remove NODE",
		Short:   "Have a controller vote no more",
		Long:    "Have a controller vote no more. The one that leads is stopped first; the others must be able to go on without it.",
		Example: "  cauce quorum remove 103",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return change(cmd.Context(), s, args[0], func(id int32, now quorum) kmsg.Request {
				request := kmsg.NewPtrRemoveRaftVoterRequest()
				request.VoterID = id
				// So that a request that is late takes out nobody who was added since.
				if i := slices.IndexFunc(now.Replicas, func(r replica) bool { return r.ID == id }); i >= 0 {
					request.VoterDirectoryID = now.Replicas[i].directory
				}
				return request
			}, false)
		},
	}
}

// change sends a request about a node and waits until the node votes, or does not.
func change(ctx context.Context, s *session.Session, node string, request func(int32, quorum) kmsg.Request, votes bool) error {
	id, err := strconv.ParseInt(node, 10, 32)
	if err != nil || id < 0 {
		return exit.Usagef("%q is not the id of a node", node)
	}
	client, err := s.Connect(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	now, err := load(ctx, client)
	if err != nil {
		return err
	}
	response, err := client.Request(ctx, request(int32(id), now))
	if err != nil {
		return fmt.Errorf("controller %d: %w", id, exit.Answer(err, ""))
	}
	code, message := answerOf(response)
	if err := kerr.ErrorForCode(code); err != nil {
		return fmt.Errorf("controller %d: %w", id, exit.Answer(err, text(message)))
	}
	return await(ctx, client, int32(id), votes)
}

func answerOf(response kmsg.Response) (code int16, message *string) {
	switch r := response.(type) {
	case *kmsg.AddRaftVoterResponse:
		return r.ErrorCode, r.ErrorMessage
	case *kmsg.RemoveRaftVoterResponse:
		return r.ErrorCode, r.ErrorMessage
	}
	return kerr.UnknownServerError.Code, nil
}

// await looks until the quorum has the node among its voters, or has not.
func await(ctx context.Context, client *kgo.Client, id int32, votes bool) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		q, err := load(ctx, client)
		has := slices.ContainsFunc(q.Replicas, func(r replica) bool { return r.ID == id && r.Role != observer })
		if err == nil && has == votes {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			if votes {
				return fmt.Errorf("controller %d is accepted and does not vote yet: %w", id, errors.Join(err, ctx.Err()))
			}
			return fmt.Errorf("controller %d still votes: %w", id, errors.Join(err, ctx.Err()))
		}
	}
}
