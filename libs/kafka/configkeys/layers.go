package configkeys

import (
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/cauce-stream/cauce/libs/config"
	"github.com/cauce-stream/cauce/libs/metadata"
)

// Layers are the three layers of a node's broker keys: what it was started
// with, the cluster-wide dynamic defaults over it, and its own dynamic values
// over both. The maps are read only and may be nil.
type Layers struct {
	Static         Values
	ClusterDefault map[string]string
	PerBroker      map[string]string
}

// LayersOf are the layers of a node's broker keys under an image.
func LayersOf(static Values, nodeID int32, im *metadata.Image) Layers {
	return Layers{
		Static:         static,
		ClusterDefault: im.Config(metadata.Resource{Type: metadata.BrokerConfig}),
		PerBroker:      im.Config(metadata.Resource{Type: metadata.BrokerConfig, Name: strconv.Itoa(int(nodeID))}),
	}
}

// Lookup returns the effective text of a broker key, and false when it is null.
func (l Layers) Lookup(name string) (string, bool) {
	if text, ok := l.PerBroker[name]; ok {
		return text, true
	}
	if text, ok := l.ClusterDefault[name]; ok {
		return text, true
	}
	return l.Static.Lookup(name)
}

// Values returns the effective values of all broker keys. Dynamic values that
// are not valid are left out: they were valid when they were accepted, so an
// older version of the program reads a newer one's.
func (l Layers) Values() Values {
	v := l.Static
	for _, layer := range []struct {
		pairs map[string]string
		where string
	}{{l.ClusterDefault, "dynamic cluster default"}, {l.PerBroker, "dynamic"}} {
		valid := maps.Clone(layer.pairs)
		maps.DeleteFunc(valid, func(name, text string) bool { return v.Schema().Check(name, text) != nil })
		v, _ = v.With(valid, layer.where)
	}
	return v
}

// TopicConfig returns the effective value of every topic key: the topic's own
// override, else what the broker keys say by Kafka's precedence (the node's
// dynamic value, the cluster's dynamic default, the static value), else the
// default. The keys retention.ms, segment.ms, segment.jitter.ms and flush.ms
// stand for several broker keys, of which the first that is set counts.
func TopicConfig(static Values, dynamicBroker, perBroker, topicOverrides map[string]string) map[string]string {
	l := Layers{static, dynamicBroker, perBroker}
	effective := make(map[string]string, len(topicKeys))
	for _, k := range topicKeys {
		effective[k.Name] = l.topicValue(k)
	}
	for name, text := range topicOverrides {
		if k, ok := Topic().Lookup(name); ok {
			effective[name] = k.Normalize(text)
		}
	}
	return effective
}

// topicValue is the value of a topic key in a topic that does not override it.
func (l Layers) topicValue(k config.Key) string {
	for _, s := range topicSynonyms[k.Name] {
		if text, ok := l.Lookup(s.name); ok {
			return s.topicText(text)
		}
	}
	return k.Default
}

// GroupConfig returns the effective value of every group key: the group's own
// override, else the broker key of that name behind "group.", else the default;
// a key without any of them is left out.
func (l Layers) GroupConfig(overrides map[string]string) map[string]string {
	effective := make(map[string]string, len(groupOverrideKeys))
	for _, k := range groupOverrideKeys {
		if !k.Null {
			effective[k.Name] = l.groupValue(k)
		}
	}
	for name, text := range overrides {
		if k, ok := Group().Lookup(name); ok {
			effective[name] = k.Normalize(text)
		}
	}
	return effective
}

func (l Layers) groupValue(k config.Key) string {
	if name, ok := groupSynonym(k.Name); ok {
		if text, ok := l.Lookup(name); ok {
			return text
		}
	}
	return k.Default
}

// groupSynonym returns the broker key that holds the default of a group key.
func groupSynonym(name string) (string, bool) {
	_, ok := Broker().Lookup("group." + name)
	return "group." + name, ok
}

// Followers returns the topic and group keys whose default is the broker key of that name.
func Followers(name string) []string {
	var followers []string
	for _, k := range slices.Concat(topicKeys, groupOverrideKeys) {
		if slices.Contains(defaultsOf(k.Name), name) {
			followers = append(followers, k.Name)
		}
	}
	return followers
}

// synonym is a broker key that stands in for a topic key.
type synonym struct {
	name string
	// unitMs converts the broker key's number to the topic key's milliseconds; 0 leaves the text as it is.
	unitMs int64
}

const (
	minuteMs = 60 * 1000
	hourMs   = 60 * minuteMs
)

// topicText converts the text of the broker key to that of the topic key. A
// negative time, whatever its size, means without limit and reads -1.
func (s synonym) topicText(text string) string {
	if s.unitMs == 0 {
		return text
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return text
	case n < 0:
		return "-1"
	case n > math.MaxInt64/s.unitMs:
		return strconv.FormatInt(math.MaxInt64, 10)
	}
	return strconv.FormatInt(n*s.unitMs, 10)
}

// topicSynonyms are the broker keys behind each topic key, in order of precedence.
var topicSynonyms = map[string][]synonym{
	"cleanup.policy":                  {{name: "log.cleanup.policy"}},
	"compression.gzip.level":          {{name: "compression.gzip.level"}},
	"compression.lz4.level":           {{name: "compression.lz4.level"}},
	"compression.type":                {{name: "compression.type"}},
	"compression.zstd.level":          {{name: "compression.zstd.level"}},
	"delete.retention.ms":             {{name: "log.cleaner.delete.retention.ms"}},
	"file.delete.delay.ms":            {{name: "log.segment.delete.delay.ms"}},
	"flush.messages":                  {{name: "log.flush.interval.messages"}},
	"flush.ms":                        {{name: "log.flush.interval.ms"}, {name: "log.flush.scheduler.interval.ms"}},
	"index.interval.bytes":            {{name: "log.index.interval.bytes"}},
	"local.retention.bytes":           {{name: "log.local.retention.bytes"}},
	"local.retention.ms":              {{name: "log.local.retention.ms"}},
	"max.compaction.lag.ms":           {{name: "log.cleaner.max.compaction.lag.ms"}},
	"max.decompressed.message.bytes":  {{name: "max.decompressed.message.bytes"}},
	"max.message.bytes":               {{name: "message.max.bytes"}},
	"message.timestamp.after.max.ms":  {{name: "log.message.timestamp.after.max.ms"}},
	"message.timestamp.before.max.ms": {{name: "log.message.timestamp.before.max.ms"}},
	"message.timestamp.type":          {{name: "log.message.timestamp.type"}},
	"min.cleanable.dirty.ratio":       {{name: "log.cleaner.min.cleanable.ratio"}},
	"min.compaction.lag.ms":           {{name: "log.cleaner.min.compaction.lag.ms"}},
	"min.insync.replicas":             {{name: "min.insync.replicas"}},
	"preallocate":                     {{name: "log.preallocate"}},
	"remote.copy.lag.bytes":           {{name: "log.remote.copy.lag.bytes"}},
	"remote.copy.lag.ms":              {{name: "log.remote.copy.lag.ms"}},
	"retention.bytes":                 {{name: "log.retention.bytes"}},
	"retention.ms":                    {{"log.retention.ms", 1}, {"log.retention.minutes", minuteMs}, {"log.retention.hours", hourMs}},
	"segment.bytes":                   {{name: "log.segment.bytes"}},
	"segment.index.bytes":             {{name: "log.index.size.max.bytes"}},
	"segment.jitter.ms":               {{"log.roll.jitter.ms", 1}, {"log.roll.jitter.hours", hourMs}},
	"segment.ms":                      {{"log.roll.ms", 1}, {"log.roll.hours", hourMs}},
	"unclean.leader.election.enable":  {{name: "unclean.leader.election.enable"}},
}
