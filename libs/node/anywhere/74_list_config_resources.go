package anywhere

import (
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/metadata"
)

// listedTypes are the types of resources that can be listed, in the order of the answer.
var listedTypes = []metadata.ConfigResourceType{
	metadata.GroupConfig, metadata.ClientMetricsConfig, metadata.BrokerLoggerConfig, metadata.BrokerConfig, metadata.TopicConfig,
}

// ListConfigResources (key 74), versions 0 and 1.
//
//	0   client metrics subscriptions only (KIP-714)
//	1   all types, or those asked for (KIP-1142)
func (h *handlers) listConfigResources(r *server.Request, q *kmsg.ListConfigResourcesRequest) kmsg.Response {
	resp := kmsg.NewPtrListConfigResourcesResponse()
	types := listedTypes
	if q.Version == 0 {
		types = []metadata.ConfigResourceType{metadata.ClientMetricsConfig}
	} else if len(q.ResourceTypes) > 0 {
		types = nil
		for _, t := range q.ResourceTypes {
			if !slices.Contains(listedTypes, metadata.ConfigResourceType(t)) {
				resp.ErrorCode = kerr.UnsupportedVersion.Code
				return resp
			}
		}
		for _, t := range listedTypes {
			if slices.Contains(q.ResourceTypes, int8(t)) {
				types = append(types, t)
			}
		}
	}
	v := newView(h.node.Image(), h.node.ID(), r.Conn.Listener())
	for _, t := range types {
		for _, name := range v.configured(t) {
			c := kmsg.NewListConfigResourcesResponseConfigResource()
			c.Name, c.Type = name, int8(t)
			resp.ConfigResources = append(resp.ConfigResources, c)
		}
	}
	return resp
}

// configured are the names of the resources of a type: topics and nodes that exist, groups and subscriptions with a
// config.
func (v view) configured(t metadata.ConfigResourceType) []string {
	var names []string
	switch t {
	case metadata.TopicConfig:
		for topic := range v.im.Topics() {
			names = append(names, topic.Name)
		}
	case metadata.BrokerConfig, metadata.BrokerLoggerConfig:
		for n := range v.im.Nodes() {
			if v.online[n.ID] {
				names = append(names, strconv.Itoa(int(n.ID)))
			}
		}
	default:
		names = slices.Collect(v.im.ConfigResources(t))
	}
	return names
}
