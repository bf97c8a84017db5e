package anywhere

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/kafka/server"
)

// The kinds of endpoints that DescribeCluster knows (KIP-919).
const (
	brokerEndpoints     = 1
	controllerEndpoints = 2
)

// RolesTag is the tagged field of a DescribeCluster response's broker that has the node's roles, comma-separated; it is Cauce's
// own, and clients that do not know it pass over it.
const RolesTag = 0x63617563 // "cauc"

// DescribeCluster (key 60), versions 0 to 2 (KIP-700).
//
//	1   endpoint types (KIP-919)
//	2   fenced brokers too (KIP-1073)
func (h *handlers) describeCluster(r *server.Request, q *kmsg.DescribeClusterRequest) kmsg.Response {
	resp := kmsg.NewPtrDescribeClusterResponse()
	if q.Version >= 1 && q.EndpointType != brokerEndpoints {
		err, message := kerr.UnsupportedEndpointType, fmt.Sprintf("Unsupported endpoint type %d", q.EndpointType)
		if q.EndpointType == controllerEndpoints {
			err, message = kerr.MismatchedEndpointType, "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
		}
		resp.ErrorCode, resp.ErrorMessage = err.Code, &message
		return resp
	}
	v := newView(h.node.Image(), h.node.ID(), r.Conn.Listener())
	resp.ClusterID, resp.ControllerID = v.im.ClusterID(), v.controller()
	for n := range v.im.Nodes() {
		l, ok := n.Listener(v.listener)
		if !ok || n.Fenced && !q.IncludeFencedBrokers {
			continue
		}
		b := kmsg.NewDescribeClusterResponseBroker()
		b.NodeID, b.Host, b.Port, b.Rack, b.IsFenced = n.ID, l.Host, int32(l.Port), textOrNull(n.Rack), n.Fenced
		b.UnknownTags.Set(RolesTag, []byte(strings.Join(n.Roles, ",")))
		resp.Brokers = append(resp.Brokers, b)
	}
	if q.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = clusterOperations
	}
	return resp
}
