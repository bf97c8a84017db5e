package cluster

import (
	"cmp"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
)

// Registration is one run of a process asking to be a node (KIP-631
// BrokerRegistration).
type Registration struct {
	NodeID int32
	// ClusterID is the cluster that the node's data belongs to; empty for a node
	// without data, which any cluster may have.
	ClusterID   string
	Incarnation [16]byte
	Rack        string
	Roles       []string
	Listeners   []metadata.Listener
	Features    map[string]metadata.FeatureRange
	LogDirs     [][16]byte
	// PreviousEpoch is the epoch of the registration under which the process
	// last ran, if it then ended in good order; -1 otherwise.
	PreviousEpoch int64
}

// Register decides a registration. The node's epoch, by which later requests
// name the registration, is the offset that its first record will have at the
// earliest, so that an image at that offset has the node. The node is fenced
// until it has sent a heartbeat from there.
//
// A node id has one owner: while its session is alive another process is
// refused with DUPLICATE_BROKER_REGISTRATION.
func (s *Sessions) Register(im *metadata.Image, env Env, r Registration) (epoch int64, recs []*metadatapb.Record, err error) {
	old, known := im.Node(r.NodeID)
	if err := s.checkRegistration(im, env, r, old); err != nil {
		return 0, nil, err
	}
	n := r.node()
	if known && old.Incarnation == r.Incarnation {
		// The same process with other properties, or a repeated request.
		n.Epoch, n.Fenced, n.InControlledShutdown = old.Epoch, old.Fenced, old.InControlledShutdown
		s.touch(n.ID, env.NowMs)
		return n.Epoch, []*metadatapb.Record{registerRecord(n)}, nil
	}
	n.Epoch, n.Fenced = im.Offset()+1, true
	if known && !old.Fenced || rulesOf(im, env).elr {
		recs = partitionChanges(im, env, leaving(old, r))
	}
	recs = append(recs, restoreReplicas(im, r.NodeID)...)
	// Log levels last as long as the process that they were set in, as in Kafka.
	levels := metadata.Resource{Type: metadata.BrokerLoggerConfig, Name: nodeName(n.ID)}
	for _, logger := range sortedKeys(im.Config(levels)) {
		recs = append(recs, configRecord(levels, logger, nil))
	}
	s.nodes[n.ID] = session{heardMs: env.NowMs, offset: -1, shutdownOffset: -1}
	return n.Epoch, append(recs, registerRecord(n)), nil
}

// leaving is how the node's former process ended: in good order, or with the
// loss of what it had not written to disk.
func leaving(old *metadata.Node, r Registration) turn {
	if old != nil && r.PreviousEpoch == old.Epoch {
		return turn{removed: r.NodeID, added: nobody, crashed: nobody}
	}
	return turn{removed: r.NodeID, added: nobody, crashed: r.NodeID}
}

func (r Registration) node() *metadata.Node {
	return &metadata.Node{
		ID: r.NodeID, Incarnation: r.Incarnation, Rack: r.Rack, Roles: r.Roles,
		Listeners: r.Listeners, Features: r.Features, LogDirs: r.LogDirs,
	}
}

func (s *Sessions) checkRegistration(im *metadata.Image, env Env, r Registration, old *metadata.Node) error {
	if r.ClusterID != "" && r.ClusterID != im.ClusterID() {
		return refuse(kerr.InconsistentClusterID, "Expected cluster ID %s, but got cluster ID %s", im.ClusterID(), r.ClusterID)
	}
	if old != nil && old.Incarnation != r.Incarnation && r.PreviousEpoch != old.Epoch && s.alive(old, env.NowMs) {
		return refuse(kerr.DuplicateBrokerRegistration, "Another broker is registered with that broker id.")
	}
	if err := checkShape(r); err != nil {
		return err
	}
	if err := checkLogDirs(im, r); err != nil {
		return err
	}
	if old != nil && old.HasRole(metadata.RoleBroker) && !slices.Contains(r.Roles, metadata.RoleBroker) && hasReplicas(im, r.NodeID) {
		return refuse(kerr.InvalidRegistration, "Node %d stores partitions and cannot give up the role broker.", r.NodeID)
	}
	return checkNodeFeatures(im, r.Features)
}

var nodeRoles = []string{metadata.RoleController, metadata.RoleBroker, metadata.RoleGroupCoord, metadata.RoleTxnCoord, metadata.RoleConnect}

func checkShape(r Registration) error {
	if r.NodeID < 0 {
		return refuse(kerr.InvalidRegistration, "Invalid negative broker ID %d.", r.NodeID)
	}
	if len(r.Roles) == 0 {
		return refuse(kerr.InvalidRegistration, "No roles specified in request")
	}
	for _, role := range r.Roles {
		if !slices.Contains(nodeRoles, role) {
			return refuse(kerr.InvalidRegistration, "Unknown role %q", role)
		}
		if role != metadata.RoleController && len(r.Listeners) == 0 {
			return refuse(kerr.InvalidRegistration, "No listeners specified in request")
		}
	}
	return nil
}

// checkLogDirs refuses a directory that two nodes, or one node twice, claim: a
// copied data directory.
func checkLogDirs(im *metadata.Image, r Registration) error {
	sorted := slices.SortedFunc(slices.Values(r.LogDirs), func(a, b [16]byte) int { return cmp.Compare(string(a[:]), string(b[:])) })
	if len(slices.Compact(sorted)) != len(r.LogDirs) {
		return refuse(kerr.InvalidRegistration, "Duplicate directory ID in request")
	}
	for n := range im.Nodes() {
		for _, dir := range r.LogDirs {
			if n.ID != r.NodeID && slices.Contains(n.LogDirs, dir) {
				return refuse(kerr.InvalidRegistration, "Broker %d is already registered with directory %s", n.ID, metadata.TopicID(dir))
			}
		}
	}
	return nil
}

func hasReplicas(im *metadata.Image, node int32) bool {
	return anyPartition(im, func(p *metadata.Partition) bool { return p.IsReplica(node) })
}

// isNeeded says that the node leads a partition or owns a shard.
func isNeeded(im *metadata.Image, node int32) bool {
	return hasLeaderships(im, node) || ownsShards(im, node)
}

func hasLeaderships(im *metadata.Image, node int32) bool {
	return anyPartition(im, func(p *metadata.Partition) bool { return p.Leader == node })
}

func anyPartition(im *metadata.Image, is func(*metadata.Partition) bool) bool {
	for t := range im.Topics() {
		if slices.ContainsFunc(t.Partitions, is) {
			return true
		}
	}
	return false
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// unregisterBroker decides UnregisterBroker, key 64, version 0 (KIP-631): the
// node is forgotten. Its replicas stay assigned to it.
func unregisterBroker(im *metadata.Image, env Env, req *kmsg.UnregisterBrokerRequest) Outcome {
	resp := req.ResponseKind().(*kmsg.UnregisterBrokerResponse)
	n, ok := im.Node(req.BrokerID)
	if !ok {
		resp.ErrorCode, resp.ErrorMessage = answer(refuse(kerr.BrokerIDNotRegistered,
			"Broker ID %d is not currently registered", req.BrokerID))
		return Outcome{Response: resp}
	}
	recs := partitionChanges(im, env, turn{removed: n.ID, added: nobody, crashed: n.ID})
	return Outcome{Response: resp, Records: append(recs, unregisterRecord(n))}
}
