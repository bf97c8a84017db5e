// Package quorum holds the commands under `cauce quorum`.
package quorum

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
)

// Command returns `cauce quorum`.
func Command(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{Use: "quorum", Short: "Look at the controllers' quorum and change its voters"}
	s.BindConnection(cmd)
	s.BindOutput(cmd)
	cmd.AddCommand(status(s), add(s), remove(s))
	return cmd
}

// quorum is the answer to DescribeQuorum. Offsets and times are -1 when not known.
type quorum struct {
	Leader        int32     `json:"leader_id"` // -1: none
	Epoch         int32     `json:"leader_epoch"`
	HighWatermark int64     `json:"high_watermark"`
	Replicas      []replica `json:"replicas"`
}

type replica struct {
	ID           int32  `json:"id"`
	Role         string `json:"role"` // leader, voter, observer
	LogEnd       int64  `json:"log_end_offset"`
	Lag          int64  `json:"lag"`            // records behind the leader
	LastFetch    int64  `json:"last_fetch"`     // milliseconds since 1970
	LastCaughtUp int64  `json:"last_caught_up"` // milliseconds since 1970
	Address      string `json:"address,omitempty"`
	directory    [16]byte
}

func status(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show who leads the quorum, who votes, and how far behind each one is",
		Long: `Show who leads the quorum, who votes, and how far behind each one is. Observers are the nodes that
follow the metadata.`,
		Example: "  cauce quorum status -b localhost:9092",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := s.Connect(cmd.Context())
			if err != nil {
				return err
			}
			defer client.Close()
			ctx, cancel := s.Bounded(cmd.Context())
			defer cancel()
			q, err := load(ctx, client)
			if err != nil {
				return fmt.Errorf("describe quorum: %w", err)
			}
			if s.Format == output.JSON {
				return output.WriteJSON(s.Out, q)
			}
			return q.write(s.Out, time.Now())
		},
	}
}

const metadataTopic = "__cluster_metadata"

func load(ctx context.Context, client *kgo.Client) (quorum, error) {
	request := kmsg.NewPtrDescribeQuorumRequest()
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic = metadataTopic
	topic.Partitions = append(topic.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	request.Topics = append(request.Topics, topic)
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return quorum{}, exit.Answer(err, "")
	}
	if err := kerr.ErrorForCode(response.ErrorCode); err != nil {
		return quorum{}, exit.Answer(err, text(response.ErrorMessage))
	}
	if len(response.Topics) != 1 || len(response.Topics[0].Partitions) != 1 {
		return quorum{}, fmt.Errorf("the answer has no partition of %s", metadataTopic)
	}
	if p := response.Topics[0].Partitions[0]; p.ErrorCode != 0 {
		return quorum{}, exit.Answer(kerr.ErrorForCode(p.ErrorCode), text(p.ErrorMessage))
	}
	return read(response), nil
}

func text(message *string) string {
	if message == nil {
		return ""
	}
	return *message
}

// read takes an answer that has the one partition.
func read(response *kmsg.DescribeQuorumResponse) quorum {
	p := response.Topics[0].Partitions[0]
	q := quorum{Leader: p.LeaderID, Epoch: p.LeaderEpoch, HighWatermark: p.HighWatermark, Replicas: []replica{}}
	leaderEnd := int64(-1)
	for _, v := range p.CurrentVoters {
		if v.ReplicaID == p.LeaderID {
			leaderEnd = v.LogEndOffset
		}
	}
	addresses := map[int32]string{}
	for _, n := range response.Nodes {
		if len(n.Listeners) > 0 {
			addresses[n.NodeID] = net.JoinHostPort(n.Listeners[0].Host, strconv.Itoa(int(n.Listeners[0].Port)))
		}
	}
	list := func(role string, states []kmsg.DescribeQuorumResponseTopicPartitionReplicaState) {
		for _, s := range states {
			r := replica{
				ID: s.ReplicaID, Role: role, LogEnd: s.LogEndOffset, Lag: -1,
				LastFetch: s.LastFetchTimestamp, LastCaughtUp: s.LastCaughtUpTimestamp, Address: addresses[s.ReplicaID], directory: s.ReplicaDirectoryID,
			}
			if r.ID == q.Leader && role == voter {
				r.Role = leader
			}
			if r.LogEnd >= 0 && leaderEnd >= 0 {
				r.Lag = max(0, leaderEnd-r.LogEnd)
			}
			q.Replicas = append(q.Replicas, r)
		}
	}
	list(voter, p.CurrentVoters)
	list(observer, p.Observers)
	slices.SortStableFunc(q.Replicas, func(a, b replica) int {
		return cmp.Or(cmp.Compare(rank[a.Role], rank[b.Role]), cmp.Compare(a.ID, b.ID))
	})
	return q
}

// Roles of replicas.
const (
	leader   = "leader"
	voter    = "voter"
	observer = "observer"
)

var rank = map[string]int{leader: 0, voter: 1, observer: 2}

func (q quorum) write(w io.Writer, now time.Time) error {
	fields := output.NewTable(output.Left(""), output.Left(""))
	fields.Row("Leader", known(int64(q.Leader)))
	fields.Row("Epoch", q.Epoch)
	fields.Row("High watermark", q.HighWatermark)
	if err := fields.Write(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	table := output.NewTable(output.Right("NODE"), output.Left("ROLE"), output.Right("LOG END"), output.Right("LAG"),
		output.Right("LAST FETCH"), output.Right("LAST CAUGHT UP"), output.Left("ADDRESS"))
	for _, r := range q.Replicas {
		table.Row(r.ID, r.Role, known(r.LogEnd), known(r.Lag), ago(now, r.LastFetch), ago(now, r.LastCaughtUp), r.Address)
	}
	return table.Write(w)
}

func known(n int64) string {
	if n < 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// ago words a time in the past.
func ago(now time.Time, ms int64) string {
	if ms < 0 {
		return ""
	}
	return max(0, now.Sub(time.UnixMilli(ms))).Round(10*time.Millisecond).String() + " ago"
}
