package cluster

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/config"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
)

// configEdit is one key of a change: a new value, or nil to remove it.
type configEdit struct {
	key   string
	value *string
}

// configEditor works out the changes of the configs of one request.
type configEditor struct {
	im      *metadata.Image
	layers  configkeys.Layers
	records []*metadatapb.Record
}

// edit checks the configs that a resource would have and keeps the records; the
// resource changes as a whole or not at all.
func (e *configEditor) edit(r metadata.Resource, edits []configEdit) error {
	now := e.im.Config(r)
	next := make(map[string]string, len(now)+len(edits))
	maps.Copy(next, now)
	var recs []*metadatapb.Record
	for _, c := range edits {
		old, had := now[c.key]
		same := c.value == nil && !had || c.value != nil && had && *c.value == old
		if c.value == nil {
			delete(next, c.key)
		} else {
			next[c.key] = *c.value
		}
		// A broker value that is set again has brokers read what it names, such
		// as a key store, anew; Kafka does so too (KAFKA-14136).
		if !same || c.value != nil && r.Type == metadata.BrokerConfig {
			recs = append(recs, configRecord(r, c.key, c.value))
		}
	}
	if err := e.check(r, next); err != nil {
		return err
	}
	if err := checkRecordLimit(len(e.records) + len(recs)); err != nil {
		return err
	}
	e.records = append(e.records, recs...)
	return nil
}

// check says why a resource cannot have these configs.
func (e *configEditor) check(r metadata.Resource, values map[string]string) error {
	switch r.Type {
	case metadata.TopicConfig:
		return e.checkTopic(r.Name, values)
	case metadata.BrokerConfig:
		if r.Name != "" {
			if err := e.checkNode(r.Name); err != nil {
				return err
			}
		}
		if err := configkeys.ValidateBroker(values, r.Name != ""); err != nil {
			// Kafka has this one code for any fault of a broker's values (KAFKA-13609).
			return refuse(kerr.InvalidRequest, "%s", err)
		}
		return nil
	case metadata.BrokerLoggerConfig:
		if err := e.checkNode(r.Name); err != nil {
			return err
		}
		return checkLogLevels(values)
	case metadata.GroupConfig:
		if r.Name == "" {
			return refuse(kerr.InvalidRequest, "Default group resources are not allowed.")
		}
		return e.layers.ValidateGroup(values)
	default: // the last that checkResourceType knows
		if r.Name == "" {
			return refuse(kerr.InvalidRequest, "Subscription name can't be empty")
		}
		return configkeys.ValidateClientMetrics(values)
	}
}

func (e *configEditor) checkTopic(name string, values map[string]string) error {
	if name == "" {
		return refuse(kerr.InvalidRequest, "Default topic resources are not allowed.")
	}
	if err := checkTopicName(name); err != nil {
		return err
	}
	if err := configkeys.ValidateTopic(values); err != nil {
		return err
	}
	if _, ok := e.im.Topic(name); !ok {
		return refuse(kerr.UnknownTopicOrPartition, "The topic '%s' does not exist.", name)
	}
	return nil
}

func (e *configEditor) checkNode(name string) error {
	id, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return refuse(kerr.InvalidRequest, "Node id must be an integer, but it is: %s", name)
	}
	if _, ok := e.im.Node(int32(id)); !ok || nodeName(int32(id)) != name {
		return refuse(kerr.InvalidRequest, "Unexpected broker id: no node with id %s is registered.", name)
	}
	return nil
}

// logLevels are the levels of Kafka's logging, which tools send.
var logLevels = []string{"DEBUG", "ERROR", "FATAL", "INFO", "TRACE", "WARN"}

// maxLoggers bounds the levels that a node is told; their names are free.
const maxLoggers = 1000

func checkLogLevels(levels map[string]string) error {
	if len(levels) > maxLoggers {
		return refuse(kerr.PolicyViolation, "Cannot set the log levels of more than %d loggers.", maxLoggers)
	}
	for _, logger := range slices.Sorted(maps.Keys(levels)) {
		if !slices.Contains(logLevels, levels[logger]) {
			return refuse(kerr.InvalidConfig,
				"Cannot set the log level of %s to %s as it is not a supported log level. Valid log levels are %s",
				logger, levels[logger], joined(logLevels))
		}
	}
	return nil
}

// checkResourceType refuses what has no stored configs.
func checkResourceType(t metadata.ConfigResourceType) error {
	switch t {
	case metadata.TopicConfig, metadata.BrokerConfig, metadata.BrokerLoggerConfig,
		metadata.ClientMetricsConfig, metadata.GroupConfig:
		return nil
	}
	return unknownResource(t)
}

func unknownResource(t metadata.ConfigResourceType) error {
	return refuse(kerr.InvalidRequest, "Unknown resource type %d", t)
}

// keyOf finds what is known of a key of a resource.
func keyOf(t metadata.ConfigResourceType, key string) (config.Key, bool) {
	switch t {
	case metadata.TopicConfig:
		return configkeys.Topic().Lookup(key)
	case metadata.BrokerConfig:
		return configkeys.Broker().Lookup(key)
	case metadata.GroupConfig:
		return configkeys.Group().Lookup(key)
	case metadata.ClientMetricsConfig:
		return configkeys.ClientMetrics().Lookup(key)
	}
	return config.Key{}, false
}

// tidy is a value as it is stored: lists have no element twice, which Kafka
// once let through and then could not start with (KAFKA-19875).
func tidy(t metadata.ConfigResourceType, key, value string) string {
	if k, ok := keyOf(t, key); ok && k.Type == config.List && k.Check(value) == nil {
		return joinedList(distinct(config.Elements(value)))
	}
	return value
}

// distinct are the elements in order of their first place. Clients send lists of
// any length, so it takes linear time.
func distinct(list []string) []string {
	seen := make(map[string]bool, len(list))
	var out []string
	for _, e := range list {
		if !seen[e] {
			seen[e] = true
			out = append(out, e)
		}
	}
	return out
}

// without are the elements that are not in others.
func without[E comparable](list, others []E) []E {
	taken := make(map[E]bool, len(others))
	for _, e := range others {
		taken[e] = true
	}
	return slices.DeleteFunc(slices.Clone(list), func(e E) bool { return taken[e] })
}

func joined(list []string) string { return strings.Join(list, ", ") }

func joinedList(list []string) string { return strings.Join(list, ",") }

// resourceKey tells the resources of one request apart.
type resourceKey struct {
	kind int8
	name string
}

// repeated are the resources that a request names more than once.
func repeated(keys []resourceKey) map[resourceKey]bool {
	seen, twice := map[resourceKey]bool{}, map[resourceKey]bool{}
	for _, k := range keys {
		if seen[k] {
			twice[k] = true
		}
		seen[k] = true
	}
	return twice
}

var (
	errResourceTwice = &Error{Code: kerr.InvalidRequest, Message: "Each resource must appear at most once."}
	errKeyTwice      = &Error{Code: kerr.InvalidRequest, Message: "Error due to duplicate config keys"}
)

// checkKeys refuses a key that is named twice and a value that is missing.
func checkKeys(names []string, nulls []string) error {
	if len(distinct(names)) != len(names) {
		return errKeyTwice
	}
	if nulls != nil {
		return refuse(kerr.InvalidRequest, "Null value not supported for : %s", joined(nulls))
	}
	return nil
}
