package configkeys

import (
	"slices"

	"github.com/cauce-stream/cauce/libs/config"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Entry is what DescribeConfigs says about one key.
type Entry struct {
	Name      string
	Value     *string // nil when null or sensitive
	Source    kmsg.ConfigSource
	Type      kmsg.ConfigType
	ReadOnly  bool // cannot be changed while the node runs
	Sensitive bool
	Doc       string
	// Synonyms are the values that the key could have, the effective one first.
	Synonyms []Synonym
}

// Synonym is one layer's value of a key or of a key that stands in for it.
type Synonym struct {
	Name   string
	Value  *string // nil when sensitive
	Source kmsg.ConfigSource
}

// DescribeTopic describes every topic key of a topic, by name.
func (l Layers) DescribeTopic(overrides map[string]string) []Entry {
	effective := TopicConfig(l.Static, l.ClusterDefault, l.PerBroker, overrides)
	entries := make([]Entry, 0, len(topicKeys))
	for k := range Topic().Keys() {
		var names []string
		for _, s := range topicSynonyms[k.Name] {
			names = append(names, s.name)
		}
		synonyms := l.synonyms(names...)
		if _, ok := overrides[k.Name]; ok {
			synonyms = slices.Insert(synonyms, 0, Synonym{k.Name, ptr(effective[k.Name]), kmsg.ConfigSourceDynamicTopicConfig})
		}
		entries = append(entries, entry(k, ptr(effective[k.Name]), synonyms))
	}
	return entries
}

// DescribeBroker describes every broker key of the node, by name. Keys that
// exist only as dynamic values (replication throttles) appear when set.
func (l Layers) DescribeBroker() []Entry {
	var entries []Entry
	for k := range Broker().Keys() {
		synonyms := l.synonyms(append([]string{k.Name}, brokerStandIns[k.Name]...)...)
		text, ok := l.Lookup(k.Name)
		if k.Internal || dynamicOnly[k.Name] && synonyms[0].Source == kmsg.ConfigSourceDefaultConfig {
			continue
		}
		e := entry(k, ptrIf(text, ok), synonyms)
		e.ReadOnly = k.Update == config.ReadOnly
		entries = append(entries, e)
	}
	return entries
}

// DescribeBrokerDefault describes the cluster-wide dynamic defaults that are set, by name.
func DescribeBrokerDefault(clusterDefault map[string]string) []Entry {
	return describeSet(Broker(), clusterDefault, kmsg.ConfigSourceDynamicDefaultBrokerConfig)
}

// DescribeGroup describes every group key of a group, by name.
func (l Layers) DescribeGroup(overrides map[string]string) []Entry {
	effective := l.GroupConfig(overrides)
	entries := make([]Entry, 0, len(groupOverrideKeys))
	for k := range Group().Keys() {
		var synonyms []Synonym
		if name, ok := groupSynonym(k.Name); ok {
			synonyms = l.synonyms(name)
		} else if !k.Null {
			synonyms = []Synonym{{k.Name, ptr(k.Default), kmsg.ConfigSourceDefaultConfig}}
		}
		if _, ok := overrides[k.Name]; ok {
			synonyms = slices.Insert(synonyms, 0, Synonym{k.Name, ptr(effective[k.Name]), kmsg.ConfigSourceGroupConfig})
		}
		text, ok := effective[k.Name]
		entries = append(entries, entry(k, ptrIf(text, ok), synonyms))
	}
	return entries
}

// DescribeClientMetrics describes every key of a client-metrics subscription, by name.
func DescribeClientMetrics(overrides map[string]string) []Entry {
	var entries []Entry
	for k := range ClientMetrics().Keys() {
		if text, ok := overrides[k.Name]; ok {
			set := []Synonym{{k.Name, ptr(text), kmsg.ConfigSourceClientMetricsConfig}}
			entries = append(entries, entry(k, ptr(text), set))
		} else {
			entries = append(entries, entry(k, ptr(k.Default), nil))
		}
	}
	return entries
}

func describeSet(schema *config.Schema, pairs map[string]string, source kmsg.ConfigSource) []Entry {
	var entries []Entry
	for k := range schema.Keys() {
		if text, ok := pairs[k.Name]; ok {
			e := entry(k, ptr(text), []Synonym{{k.Name, hide(k, text), source}})
			e.ReadOnly = k.Update == config.ReadOnly
			entries = append(entries, e)
		}
	}
	return entries
}

// synonyms lists the values of the named broker keys, layer by layer and within
// a layer in the order of names. As in Kafka, values before the first one of
// names[0] are left out, so that a key is never described by its stand-ins alone.
func (l Layers) synonyms(names ...string) []Synonym {
	var all []Synonym
	for _, layer := range []struct {
		source kmsg.ConfigSource
		lookup func(string) (string, bool)
	}{
		{kmsg.ConfigSourceDynamicBrokerConfig, mapLookup(l.PerBroker)},
		{kmsg.ConfigSourceDynamicDefaultBrokerConfig, mapLookup(l.ClusterDefault)},
		{kmsg.ConfigSourceStaticBrokerConfig, func(name string) (string, bool) { return l.Static.Get(name), l.Static.Given(name) }},
		{kmsg.ConfigSourceDefaultConfig, Broker().Defaults().Lookup},
	} {
		for _, name := range names {
			if text, ok := layer.lookup(name); ok {
				k, _ := Broker().Lookup(name)
				all = append(all, Synonym{name, hide(k, text), layer.source})
			}
		}
	}
	first := slices.IndexFunc(all, func(s Synonym) bool { return s.Name == names[0] })
	if first < 0 {
		return nil
	}
	return all[first:]
}

// brokerStandIns are the coarser broker keys that Kafka describes a broker key with.
var brokerStandIns = map[string][]string{
	"log.flush.interval.ms": {"log.flush.scheduler.interval.ms"},
	"log.retention.ms":      {"log.retention.minutes", "log.retention.hours"},
	"log.retention.minutes": {"log.retention.hours"},
	"log.roll.ms":           {"log.roll.hours"},
	"log.roll.jitter.ms":    {"log.roll.jitter.hours"},
}

func entry(k config.Key, value *string, synonyms []Synonym) Entry {
	e := Entry{
		Name: k.Name, Value: value, Source: kmsg.ConfigSourceDefaultConfig, Type: wireTypes[k.Type],
		Sensitive: k.Sensitive(), Doc: k.Doc, Synonyms: synonyms,
	}
	if k.Sensitive() {
		e.Value = nil
	}
	if len(synonyms) > 0 {
		e.Source = synonyms[0].Source
	}
	return e
}

var wireTypes = map[config.Type]kmsg.ConfigType{
	config.Boolean: kmsg.ConfigTypeBoolean, config.String: kmsg.ConfigTypeString, config.Int: kmsg.ConfigTypeInt,
	config.Short: kmsg.ConfigTypeShort, config.Long: kmsg.ConfigTypeLong, config.Double: kmsg.ConfigTypeDouble,
	config.List: kmsg.ConfigTypeList, config.Class: kmsg.ConfigTypeClass, config.Password: kmsg.ConfigTypePassword,
}

func mapLookup(m map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		text, ok := m[name]
		return text, ok
	}
}

func hide(k config.Key, text string) *string { return ptrIf(text, !k.Sensitive()) }

func ptr(text string) *string { return &text }

func ptrIf(text string, ok bool) *string {
	if !ok {
		return nil
	}
	return &text
}
