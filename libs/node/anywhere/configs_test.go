package anywhere

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/metadata"
)

func resource(t metadata.ConfigResourceType, name string, keys ...string) kmsg.DescribeConfigsRequestResource {
	return kmsg.DescribeConfigsRequestResource{ResourceType: kmsg.ConfigResourceType(t), ResourceName: name, ConfigNames: keys}
}

// described writes the configs of a resource, "key=value SOURCE {synonyms}" each.
func described(r kmsg.DescribeConfigsResponseResource) string {
	if r.ErrorCode != 0 {
		return fmt.Sprintf("!%d %s", r.ErrorCode, *r.ErrorMessage)
	}
	value := func(v *string) string {
		if v == nil {
			return "null"
		}
		return *v
	}
	var all []string
	for _, c := range r.Configs {
		var synonyms []string
		for _, s := range c.ConfigSynonyms {
			synonyms = append(synonyms, fmt.Sprintf("%s=%s %s", s.Name, value(s.Value), s.Source))
		}
		all = append(all, fmt.Sprintf("%s=%s %s {%s}", c.Name, value(c.Value), c.Source, strings.Join(synonyms, ", ")))
	}
	return strings.Join(all, "; ")
}

// BL-082 and BL-109: sources, synonyms and values as Apache Kafka 4.3.1 gives them in the same situation, at every
// version; a value that equals the default is still an override.
func TestDescribeConfigs(t *testing.T) {
	f := newFake(t)
	f.apply(t,
		configRecord(metadata.TopicConfig, "b", "retention.ms", "604800000"),
		configRecord(metadata.BrokerConfig, "", "log.retention.ms", "1000000"),
		configRecord(metadata.GroupConfig, "g", "consumer.session.timeout.ms", "50000"),
		configRecord(metadata.BrokerLoggerConfig, "1", "kafka.server", "DEBUG"),
	)
	c := serve(t, f)
	const invalid, noTopic, unknown = 42, 17, 3
	for _, tt := range []struct {
		resource kmsg.DescribeConfigsRequestResource
		want     string
	}{
		{resource(metadata.TopicConfig, "b", "retention.ms", "cleanup.policy", "bogus"),
			"cleanup.policy=delete DEFAULT_CONFIG {log.cleanup.policy=delete DEFAULT_CONFIG}; " +
				"retention.ms=604800000 DYNAMIC_TOPIC_CONFIG {retention.ms=604800000 DYNAMIC_TOPIC_CONFIG, " +
				"log.retention.ms=1000000 DYNAMIC_DEFAULT_BROKER_CONFIG, log.retention.hours=168 DEFAULT_CONFIG}"},
		{resource(metadata.TopicConfig, "nope"), fmt.Sprintf("!%d ", unknown)},
		{resource(metadata.TopicConfig, "bad name"), fmt.Sprintf("!%d Topic name is invalid: 'bad name' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'", noTopic)},
		{resource(metadata.TopicConfig, ""), fmt.Sprintf("!%d Topic name is invalid: the empty string is not allowed", noTopic)},
		{resource(metadata.BrokerConfig, "1", "log.retention.ms", "num.partitions"),
			"log.retention.ms=1000000 DYNAMIC_DEFAULT_BROKER_CONFIG {log.retention.ms=1000000 DYNAMIC_DEFAULT_BROKER_CONFIG, log.retention.hours=168 DEFAULT_CONFIG}; " +
				"num.partitions=1 DEFAULT_CONFIG {num.partitions=1 DEFAULT_CONFIG}"},
		{resource(metadata.BrokerConfig, ""), "log.retention.ms=1000000 DYNAMIC_DEFAULT_BROKER_CONFIG {log.retention.ms=1000000 DYNAMIC_DEFAULT_BROKER_CONFIG}"},
		{resource(metadata.BrokerConfig, "2"), fmt.Sprintf("!%d Unexpected broker id, expected 1 or empty string, but received 2", invalid)},
		{resource(metadata.BrokerConfig, "abc"), fmt.Sprintf("!%d Broker id must be an integer, but it is: abc", invalid)},
		{resource(metadata.GroupConfig, "g", "consumer.session.timeout.ms"),
			"consumer.session.timeout.ms=50000 GROUP_CONFIG {consumer.session.timeout.ms=50000 GROUP_CONFIG, group.consumer.session.timeout.ms=45000 DEFAULT_CONFIG}"},
		{resource(metadata.GroupConfig, "other", "consumer.session.timeout.ms"),
			"consumer.session.timeout.ms=45000 DEFAULT_CONFIG {group.consumer.session.timeout.ms=45000 DEFAULT_CONFIG}"},
		{resource(metadata.GroupConfig, ""), fmt.Sprintf("!%d Group name must not be empty", invalid)},
		{resource(metadata.ClientMetricsConfig, "m", "interval.ms"), "interval.ms=300000 DEFAULT_CONFIG {}"},
		{resource(metadata.ClientMetricsConfig, ""), fmt.Sprintf("!%d Client metrics subscription name must not be empty", invalid)},
		{resource(metadata.BrokerLoggerConfig, "1"), "kafka.server=DEBUG DYNAMIC_BROKER_LOGGER_CONFIG {}; root=INFO DYNAMIC_BROKER_LOGGER_CONFIG {}"},
		{resource(metadata.BrokerLoggerConfig, "2"), fmt.Sprintf("!%d Unexpected broker id, expected 1 but received 2", invalid)},
		{resource(metadata.BrokerLoggerConfig, ""), fmt.Sprintf("!%d Broker id must not be empty", invalid)},
	} {
		for version := int16(1); version <= 4; version++ {
			q := &kmsg.DescribeConfigsRequest{IncludeSynonyms: true, Resources: []kmsg.DescribeConfigsRequestResource{tt.resource}}
			resp := ask[*kmsg.DescribeConfigsResponse](c, q, version)
			if got := described(resp.Resources[0]); got != tt.want {
				t.Errorf("v%d %v %q:\n%s\n%s", version, tt.resource.ResourceType, tt.resource.ResourceName, got, tt.want)
			}
		}
	}
}

func TestDescribeConfigsAsAsked(t *testing.T) {
	c := serve(t, newFake(t))
	for version := int16(1); version <= 4; version++ {
		for _, asked := range []bool{false, true} {
			q := &kmsg.DescribeConfigsRequest{IncludeSynonyms: asked, IncludeDocumentation: asked}
			q.Resources = append(q.Resources, resource(metadata.TopicConfig, "b"), resource(metadata.BrokerConfig, "1"))
			for _, r := range ask[*kmsg.DescribeConfigsResponse](c, q, version).Resources {
				if len(r.Configs) < 30 || r.ErrorCode != 0 {
					t.Fatalf("v%d: %d configs, code %d", version, len(r.Configs), r.ErrorCode)
				}
				i := slices.IndexFunc(r.Configs, func(c kmsg.DescribeConfigsResponseResourceConfig) bool { return c.Name == "min.insync.replicas" })
				got := r.Configs[i]
				if documented := got.Documentation != nil && *got.Documentation != ""; documented != (asked && version >= 3) {
					t.Errorf("v%d: documented %v", version, documented)
				}
				if (len(got.ConfigSynonyms) > 0) != asked || (got.ConfigType == kmsg.ConfigTypeInt) != (version >= 3) || *got.Value != "1" {
					t.Errorf("v%d: %+v", version, got)
				}
			}
		}
	}
}

// An unknown type of resource refuses the whole request.
func TestDescribeConfigsOfUnknownType(t *testing.T) {
	c := serve(t, newFake(t))
	q := &kmsg.DescribeConfigsRequest{Resources: []kmsg.DescribeConfigsRequestResource{resource(metadata.TopicConfig, "b"), resource(7, "x")}}
	for _, r := range ask[*kmsg.DescribeConfigsResponse](c, q, 4).Resources {
		if r.ErrorCode != kerr.InvalidRequest.Code || len(r.Configs) > 0 {
			t.Errorf("%+v", r)
		}
	}
}

func TestListConfigResources(t *testing.T) {
	f := newFake(t)
	f.apply(t,
		configRecord(metadata.GroupConfig, "g", "consumer.session.timeout.ms", "50000"),
		configRecord(metadata.ClientMetricsConfig, "m", "interval.ms", "1000"),
	)
	c := serve(t, f)
	for _, tt := range []struct {
		version int16
		types   []int8
		want    string
	}{
		{0, nil, "16:m"},
		{1, nil, "32:g 16:m 8:1 8:2 4:1 4:2 2:__consumer_offsets 2:a 2:b"},
		{1, []int8{2}, "2:__consumer_offsets 2:a 2:b"},
		{1, []int8{4, 32}, "32:g 4:1 4:2"},
		{1, []int8{32, 7}, "!35"},
	} {
		resp := ask[*kmsg.ListConfigResourcesResponse](c, &kmsg.ListConfigResourcesRequest{ResourceTypes: tt.types}, tt.version)
		var got []string
		for _, r := range resp.ConfigResources {
			got = append(got, fmt.Sprintf("%d:%s", r.Type, r.Name))
		}
		if resp.ErrorCode != 0 {
			got = []string{fmt.Sprintf("!%d", resp.ErrorCode)}
		}
		if joined := strings.Join(got, " "); joined != tt.want {
			t.Errorf("v%d %v: %s", tt.version, tt.types, joined)
		}
	}
}
