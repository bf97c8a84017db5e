package controlpb

import (
	"encoding/hex"

	"github.com/cauce-stream/cauce/libs/bus"
)

// Endpoints of the active controller. When there is none, a call fails with bus.ErrNoResponder.
var (
	Admin               = bus.NewEndpoint[*AdminRequest, *AdminResponse]("cauce.controller.admin")
	Register            = bus.NewEndpoint[*RegisterRequest, *RegisterResponse]("cauce.controller.register")
	Heartbeat           = bus.NewEndpoint[*HeartbeatRequest, *HeartbeatResponse]("cauce.controller.heartbeat")
	AllocateProducerIds = bus.NewEndpoint[*AllocateProducerIdsRequest, *AllocateProducerIdsResponse]("cauce.controller.producerids")
	AlterPartition      = bus.NewEndpoint[*AlterPartitionRequest, *AlterPartitionResponse]("cauce.controller.alterpartition")
	FailReplicas        = bus.NewEndpoint[*FailReplicasRequest, *FailReplicasResponse]("cauce.controller.failreplicas")
)

// Fetch is served by every controller: shared at the endpoint itself, and by each alone At its id.
var Fetch = bus.NewEndpoint[*FetchRequest, *FetchResponse]("cauce.metadata.fetch")

// Probe is served by every node, At its id.
var Probe = bus.NewEndpoint[*ProbeRequest, *ProbeResponse]("cauce.node.probe")

// ProcessName is the name under which a node's process is present on the bus, by the incarnation that it registers.
func ProcessName(incarnation [16]byte) string { return "node-" + hex.EncodeToString(incarnation[:]) }

// MetadataStream is the subject on which the active controller pushes record batches.
const MetadataStream = "cauce.metadata.stream"
