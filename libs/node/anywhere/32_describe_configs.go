package anywhere

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/metadata"
)

// DescribeConfigs (key 32), versions 1 to 4.
//
//	1   synonyms and sources (KIP-226)
//	3   types and documentation (KIP-569)
//
// Resources are topics, this node ("" stands for the defaults of all nodes), this node's loggers (KIP-412), client
// metrics subscriptions (KIP-714) and groups (KIP-848). A request with a resource of another type is refused as a whole.
func (h *handlers) describeConfigs(_ *server.Request, q *kmsg.DescribeConfigsRequest) kmsg.Response {
	resp := kmsg.NewPtrDescribeConfigsResponse()
	im := h.node.Image()
	unknown := slices.ContainsFunc(q.Resources, func(r kmsg.DescribeConfigsRequestResource) bool { return !configurable(r.ResourceType) })
	for _, r := range q.Resources {
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName = r.ResourceType, r.ResourceName
		if unknown {
			out.ErrorCode, out.ErrorMessage = kerr.InvalidRequest.Code, text(kerr.InvalidRequest.Description)
			resp.Resources = append(resp.Resources, out)
			continue
		}
		entries, err := h.describe(im, r)
		out.ErrorMessage = text("")
		if err != nil {
			out.ErrorCode, out.ErrorMessage = err.code.Code, text(err.message)
		}
		for _, e := range entries {
			if len(r.ConfigNames) == 0 || slices.Contains(r.ConfigNames, e.Name) {
				out.Configs = append(out.Configs, describedConfig(e, q))
			}
		}
		resp.Resources = append(resp.Resources, out)
	}
	return resp
}

func configurable(t kmsg.ConfigResourceType) bool {
	switch metadata.ConfigResourceType(t) {
	case metadata.TopicConfig, metadata.BrokerConfig, metadata.BrokerLoggerConfig, metadata.ClientMetricsConfig, metadata.GroupConfig:
		return true
	}
	return false
}

// refusal is an error for one resource of a request.
type refusal struct {
	code    *kerr.Error
	message string
}

// describe lists the configs of a resource.
func (h *handlers) describe(im *metadata.Image, r kmsg.DescribeConfigsRequestResource) ([]configkeys.Entry, *refusal) {
	name := r.ResourceName
	stored := im.Config(metadata.Resource{Type: metadata.ConfigResourceType(r.ResourceType), Name: name})
	switch metadata.ConfigResourceType(r.ResourceType) {
	case metadata.TopicConfig:
		if fault := topicNameFault(name); fault != "" {
			return nil, &refusal{kerr.InvalidTopicException, "Topic name is invalid: " + fault}
		}
		if _, ok := im.Topic(name); !ok {
			return nil, &refusal{kerr.UnknownTopicOrPartition, ""}
		}
		return h.layers(im).DescribeTopic(stored), nil
	case metadata.BrokerConfig:
		if name == "" {
			return configkeys.DescribeBrokerDefault(stored), nil
		}
		if err := h.checkOwnID(name, " or empty string,"); err != nil {
			return nil, err
		}
		return h.layers(im).DescribeBroker(), nil
	case metadata.BrokerLoggerConfig:
		if name == "" {
			return nil, &refusal{kerr.InvalidRequest, "Broker id must not be empty"}
		}
		if err := h.checkOwnID(name, ""); err != nil {
			return nil, err
		}
		return describeLoggers(stored, h.node.Static().String("log.level")), nil
	case metadata.ClientMetricsConfig:
		if name == "" {
			return nil, &refusal{kerr.InvalidRequest, "Client metrics subscription name must not be empty"}
		}
		return configkeys.DescribeClientMetrics(stored), nil
	default:
		if name == "" {
			return nil, &refusal{kerr.InvalidRequest, "Group name must not be empty"}
		}
		return h.layers(im).DescribeGroup(stored), nil
	}
}

// checkOwnID refuses the name of another node, whose configs only it knows.
func (h *handlers) checkOwnID(name, alternative string) *refusal {
	id, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return &refusal{kerr.InvalidRequest, "Broker id must be an integer, but it is: " + name}
	}
	if own := h.node.ID(); int32(id) != own {
		return &refusal{kerr.InvalidRequest, fmt.Sprintf("Unexpected broker id, expected %d%s but received %d", own, alternative, id)}
	}
	return nil
}

// describeLoggers lists the log levels that were set, and that of the root logger, which starts with rootLevel.
func describeLoggers(levels map[string]string, rootLevel string) []configkeys.Entry {
	all := map[string]string{"root": strings.ToUpper(rootLevel)}
	maps.Copy(all, levels)
	var list []configkeys.Entry
	for _, logger := range slices.Sorted(maps.Keys(all)) {
		list = append(list, configkeys.Entry{Name: logger, Value: text(all[logger]), Source: kmsg.ConfigSourceDynamicBrokerLoggerConfig})
	}
	return list
}

// layers are the broker keys of this node.
func (h *handlers) layers(im *metadata.Image) configkeys.Layers {
	return configkeys.LayersOf(h.node.Static(), h.node.ID(), im)
}

// describedConfig is an entry with as much as the request asks for.
func describedConfig(e configkeys.Entry, q *kmsg.DescribeConfigsRequest) kmsg.DescribeConfigsResponseResourceConfig {
	out := kmsg.NewDescribeConfigsResponseResourceConfig()
	out.Name, out.Value, out.ReadOnly, out.Source = e.Name, e.Value, e.ReadOnly, e.Source
	out.IsSensitive, out.ConfigType = e.Sensitive, e.Type
	if q.IncludeDocumentation {
		out.Documentation = text(e.Doc)
	}
	if q.IncludeSynonyms {
		for _, s := range e.Synonyms {
			synonym := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			synonym.Name, synonym.Value, synonym.Source = s.Name, s.Value, s.Source
			out.ConfigSynonyms = append(out.ConfigSynonyms, synonym)
		}
	}
	return out
}
