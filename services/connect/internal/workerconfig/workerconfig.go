// Package workerconfig is the configuration of a Connect worker: the keys of Apache Kafka's workers, and the families of keys that go on to
// converters, clients, topics and providers.
package workerconfig

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cauce-stream/cauce/libs/config"
)

var schema = config.NewSchema(groupKeys, topicKeys, taskKeys, restKeys, unusedKeys).Retire(map[string]string{
	"internal.key.converter":   "removed in Kafka 3: internal topics are always JSON",
	"internal.value.converter": "removed in Kafka 3: internal topics are always JSON",
	"rest.host.name":           "removed in Kafka 3, use listeners",
	"rest.port":                "removed in Kafka 3, use listeners",
})

// Schema is the keys that have a name of their own.
func Schema() *config.Schema { return schema }

// The families: what begins so is for someone else to know, once it is not a key with a name of its own.
const (
	Producer        = "producer."
	Consumer        = "consumer."
	Admin           = "admin."
	KeyConverter    = "key.converter."
	ValueConverter  = "value.converter."
	HeaderConverter = "header.converter."
	ConfigTopic     = "config.storage."
	OffsetTopic     = "offset.storage."
	StatusTopic     = "status.storage."
	Providers       = "config.providers."
	// TLS, SASL and Metrics are of the worker's own connections and of Kafka's reporters; Security has one member.
	TLS      = "ssl."
	SASL     = "sasl."
	Security = "security."
	RestTLS  = "listeners.https."
	Metrics  = "metrics.context."
	// Confluent is of what Confluent's distribution adds to a worker, and means nothing here.
	Confluent = "confluent."
)

var families = []string{
	Producer, Consumer, Admin, KeyConverter, ValueConverter, HeaderConverter, ConfigTopic, OffsetTopic, StatusTopic, Providers, TLS, SASL, Security, RestTLS, Metrics, Confluent,
}

// Config is a worker's configuration. It is immutable.
type Config struct {
	config.Values
	families map[string]map[string]string
}

// Parse checks a worker's properties, which are said to come from where. The error is config.Faults.
func Parse(properties map[string]string, where string) (Config, error) {
	named := map[string]string{}
	c := Config{families: map[string]map[string]string{}}
	var faults config.Faults
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		family, rest := familyOf(name)
		if family == "" {
			if f := schema.Check(name, properties[name]); f != nil {
				f.Where = where
				faults = append(faults, f)
				continue
			}
			named[name] = properties[name]
			continue
		}
		if c.families[family] == nil {
			c.families[family] = map[string]string{}
		}
		c.families[family][rest] = properties[name]
	}
	values, err := schema.Defaults().With(named, where)
	if err != nil {
		return Config{}, fmt.Errorf("worker's configuration: %w", err)
	}
	c.Values = values
	for _, f := range c.check() {
		f.Where = where
		faults = append(faults, f)
	}
	if faults != nil {
		return Config{}, faults
	}
	return c, nil
}

// Unknown says of a name that is no key of a worker what is wrong with it, and which key is meant if one is near; nil for one that is.
func Unknown(name string) *config.Fault {
	if _, ok := schema.Lookup(name); ok {
		return nil
	}
	if family, _ := familyOf(name); family != "" {
		return nil
	}
	return schema.Check(name, "")
}

// familyOf splits a key that has no name of its own.
func familyOf(name string) (family, rest string) {
	if _, ok := schema.Lookup(name); ok {
		return "", ""
	}
	for _, f := range families {
		if rest, ok := strings.CutPrefix(name, f); ok && rest != "" {
			return f, rest
		}
	}
	return "", ""
}

// Family returns the properties of a family by what follows its prefix. The map is the caller's.
func (c Config) Family(prefix string) map[string]string {
	m := maps.Clone(c.families[prefix])
	if m == nil {
		m = map[string]string{}
	}
	return m
}

// check is what no key can say of itself.
func (c Config) check() config.Faults {
	var faults config.Faults
	refuse := func(name, value, reason string, args ...any) {
		faults = append(faults, &config.Fault{Name: name, Value: value, Reason: fmt.Sprintf(reason, args...)})
	}
	for _, name := range []string{"group.id", "key.converter", "value.converter", "config.storage.topic", "offset.storage.topic", "status.storage.topic"} {
		if !c.Given(name) {
			refuse(name, "", "has no default and is not set")
		}
	}
	if classes := c.List("rest.extension.classes"); len(classes) > 0 {
		refuse("rest.extension.classes", strings.Join(classes, ","), "Java classes cannot be loaded, and what they guard would be open to all")
	}
	if beat := c.Int("heartbeat.interval.ms"); beat >= c.Int("session.timeout.ms") {
		refuse("heartbeat.interval.ms", fmt.Sprint(beat), "has to be shorter than session.timeout.ms, %d", c.Int("session.timeout.ms"))
	}
	if a := c.String("inter.worker.signature.algorithm"); !slices.Contains(c.List("inter.worker.verification.algorithms"), a) {
		refuse("inter.worker.signature.algorithm", a, "is not among inter.worker.verification.algorithms")
	}
	for _, family := range []string{ConfigTopic, OffsetTopic, StatusTopic} {
		if policy, ok := c.families[family]["cleanup.policy"]; ok && strings.TrimSpace(policy) != "compact" {
			refuse(family+"cleanup.policy", policy, "the topic has to be compacted, or connectors would be forgotten")
		}
	}
	if n, ok := c.families[ConfigTopic]["partitions"]; ok && strings.TrimSpace(n) != "1" {
		refuse(ConfigTopic+"partitions", n, "the config topic has one partition, as its records have one order")
	}
	for topic, name := range map[string]string{"offset.storage.topic": "config.storage.topic", "status.storage.topic": "offset.storage.topic", "config.storage.topic": "status.storage.topic"} {
		if c.Given(topic) && c.String(topic) == c.String(name) {
			refuse(topic, c.String(topic), "is also %s", name)
		}
	}
	for name := range c.providers() {
		if c.families[Providers][name+".class"] == "" {
			refuse(Providers+name+".class", "", "provider %s has no class", name)
		}
	}
	slices.SortFunc(faults, func(a, b *config.Fault) int { return strings.Compare(a.Name, b.Name) })
	return faults
}

func (c Config) providers() map[string]bool {
	names := map[string]bool{}
	for _, name := range c.List("config.providers") {
		names[name] = true
	}
	return names
}
