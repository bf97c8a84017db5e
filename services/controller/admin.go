package controller

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/bus/controlpb"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
	"github.com/cauce-stream/cauce/libs/security"
	"github.com/cauce-stream/cauce/services/controller/internal/cluster"
)

// admin decides a Kafka request that a node passed on.
func (r *reign) admin(req *controlpb.AdminRequest) (*controlpb.AdminResponse, []*metadatapb.Record, error) {
	key, version := int16(req.GetApiKey()), int16(req.GetApiVersion())
	kreq := kmsg.RequestForKey(key)
	if kreq == nil || int32(key) != req.GetApiKey() || version < 0 || version > kreq.MaxVersion() {
		return nil, nil, fmt.Errorf("key %d version %d: %w", req.GetApiKey(), req.GetApiVersion(), kerr.UnsupportedVersion)
	}
	kreq.SetVersion(version)
	if err := kreq.ReadFrom(req.GetBody()); err != nil {
		return nil, nil, fmt.Errorf("%s: %w: %w", kmsg.NameForKey(key), err, kerr.InvalidRequest)
	}
	principal, err := security.ParsePrincipal(req.GetPrincipal())
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", err, kerr.InvalidRequest)
	}
	env := r.env()
	if key == int16(kmsg.DescribeQuorum) {
		if env.Quorum, err = r.quorum(); err != nil {
			return nil, nil, err
		}
	}
	out := cluster.Handle(r.image, env, kreq, principal)
	switch kreq := kreq.(type) {
	case *kmsg.AddRaftVoterRequest:
		out.Response, err = r.addVoter(kreq)
	case *kmsg.RemoveRaftVoterRequest:
		out.Response, err = r.removeVoter(kreq)
	}
	if err != nil {
		return nil, nil, err
	}
	if out.Response == nil {
		return nil, nil, fmt.Errorf("%s is not the controller's to answer: %w", kmsg.NameForKey(key), kerr.UnsupportedVersion)
	}
	out.Response.SetVersion(version)
	return &controlpb.AdminResponse{Body: out.Response.AppendTo(nil), MetadataOffset: r.offsetWith(out.Records)}, out.Records, nil
}

// quorum is the raft group as DescribeQuorum tells it: controllers vote, and the nodes that follow the metadata observe.
func (r *reign) quorum() (cluster.Quorum, error) {
	st, err := r.s.quorum.Status(context.Background()) // answered between two writes of the log, or when the quorum stops
	if err != nil {
		return cluster.Quorum{}, fmt.Errorf("%w: %w", err, kerr.NotController)
	}
	q := cluster.Quorum{LeaderID: st.Leader, LeaderEpoch: int32(st.Term), HighWatermark: st.HighWatermark}
	voters := map[int32]bool{}
	for _, v := range st.Voters {
		voters[v.ID] = true
		voter := cluster.QuorumReplica{
			ID: v.ID, DirectoryID: directoryID(v.Disk), LogEndOffset: v.LogEnd, LastFetchMs: epochMs(v.LastHeard), LastCaughtUpMs: epochMs(v.CaughtUp),
			Listeners: r.s.peerListeners(v.ID),
		}
		if v.Learns {
			q.Observers = append(q.Observers, voter)
			continue
		}
		q.Voters = append(q.Voters, voter)
	}
	for _, id := range slices.Sorted(maps.Keys(r.beats)) {
		if n, ok := r.image.Node(id); ok && !n.Fenced && !voters[id] {
			b := r.beats[id]
			q.Observers = append(q.Observers, cluster.QuorumReplica{ID: id, LogEndOffset: b.offset + 1, LastFetchMs: b.atMs, LastCaughtUpMs: b.caughtUpMs})
		}
	}
	return q, nil
}

// epochMs is a time in milliseconds since 1970, -1 for none.
func epochMs(t time.Time) int64 {
	if t.IsZero() {
		return -1
	}
	return t.UnixMilli()
}

// peerListeners is where a controller's quorum is reached.
func (s *Service) peerListeners(id int32) []metadata.Listener {
	address := cmp.Or(s.cfg.Peers[id], s.cfg.Static.String("controller.listener"))
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil
	}
	return []metadata.Listener{{Name: "CONTROLLER", Host: host, Port: uint16(number)}}
}
