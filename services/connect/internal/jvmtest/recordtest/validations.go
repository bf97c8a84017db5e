package main

import (
	"encoding/json"
	"maps"
	"net/http"

	"github.com/cauce-stream/cauce/services/connect/internal/jvmtest"
)

// The configurations that have nothing wrong with them.
var (
	goodSource = map[string]string{"connector.class": "FileStreamSource", "name": "a", "topic": "t", "file": "x"}
	goodSink   = map[string]string{"connector.class": "FileStreamSink", "name": "a", "topics": "t", "file": "x"}
)

// ofBoth are changes to either, keys and values in turn; null takes a key away.
var ofBoth = [][]string{
	{}, {"tasks.max", "0"}, {"tasks.max", "x"}, {"tasks.max", " 2 "}, {"tasks.max.enforce", "maybe"}, {"name", ""}, {"name", "a\x01b"}, {"key.converter", "Nope"},
	{"key.converter", "org.apache.kafka.connect.storage.StringConverter"}, {"value.converter", "org.apache.kafka.connect.json.JsonConverter"},
	{"value.converter", "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable", "maybe"}, {"value.converter.schemas.enable", "maybe"},
	{"header.converter", "org.apache.kafka.connect.storage.SimpleHeaderConverter"}, {"value.converter", "org.apache.kafka.connect.storage.SimpleHeaderConverter"},
	{"errors.tolerance", "ALL"}, {"errors.tolerance", "x"}, {"errors.retry.timeout", "-2"}, {"errors.retry.timeout", "-1"}, {"errors.retry.delay.max.ms", "-1"}, {"errors.log.enable", "x"},
	{"config.action.reload", "x"}, {"config.action.reload", "RESTART"}, {"transforms", "a"}, {"transforms", "a,a"}, {"transforms", "a,,b"}, {"predicates", "p"},
	{"connector.plugin.version", "4.3.1"}, {"connector.plugin.version", "[4.0,5.0)"}, {"connector.plugin.version", "9"}, {"key.converter.plugin.version", "1"},
	{"producer.override.acks", "all"}, {"admin.override.x", "y"}, {"consumer.override.group.id", jvmtest.Group},
}

var ofSinks = [][]string{
	{"topics", "null"}, {"topics.regex", "t.*"}, {"topics", "null", "topics.regex", "("}, {"topics", "null", "topics.regex", "t.*"}, {"topics", ""}, {"topics", "a,,b"}, {"topics", "a,a"},
	{"errors.deadletterqueue.topic.name", "t"}, {"errors.deadletterqueue.topic.name", "d"}, {"topics", "null", "topics.regex", "d.*", "errors.deadletterqueue.topic.name", "d"},
	{"errors.deadletterqueue.topic.replication.factor", "x"}, {"errors.deadletterqueue.topic.replication.factor", "-5"}, {"errors.deadletterqueue.context.headers.enable", "x"},
}

var ofSources = [][]string{
	{"exactly.once.support", "required"}, {"exactly.once.support", "REQUESTED"}, {"exactly.once.support", "x"}, {"transaction.boundary", "connector"}, {"transaction.boundary", "INTERVAL"},
	{"transaction.boundary", "x"}, {"transaction.boundary.interval.ms", "-1"}, {"transaction.boundary.interval.ms", "x"}, {"offsets.storage.topic", ""}, {"offsets.storage.topic", "o"},
	{"topic.creation.groups", "a,a"}, {"topic.creation.default.partitions", "x"}, {"producer.override.acks", "2"},
}

// ofTransforms are keys of a transform a, without the prefix, ofPredicates those of a predicate p.
var (
	ofTransforms = [][]string{
		{"type", "HoistField$Value", "field", "x"}, {"type", "HoistField$Value"}, {"type", "HoistField"}, {"type", "Nope"}, {"type", "Cast$Value", "spec", "a:int8"}, {"type", "Cast$Value", "spec", "a:x"}, {"type", "Filter"},
		{"type", "Filter", "predicate", "q"}, {"type", "Filter", "negate", "true"}, {"type", "Filter", "negate", "x", "predicate", "p"}, {"type", "RegexRouter", "regex", "(", "replacement", "x"},
		{"type", "RegexRouter"}, {"type", "InsertField$Value"}, {"type", "MaskField$Value", "fields", "a"}, {"type", "MaskField$Value"}, {"type", "TimestampConverter$Value", "target.type", "x"},
		{"type", "TimestampConverter$Value"}, {"type", "ReplaceField$Value", "renames", "a"}, {"type", "HeaderFrom$Key"}, {"type", "InsertHeader"}, {"type", "DropHeaders"}, {"type", "Flatten$Key"},
		{"type", "SetSchemaMetadata$Value"}, {"type", "TimestampRouter"}, {"type", "ValueToKey"}, {"type", "ExtractField$Key", "field.syntax.version", "V3", "field", "a"}, {"type", "Filter", "plugin.version", "9"},
	}
	ofPredicates = [][]string{
		{"type", "HasHeaderKey", "name", "x"}, {"type", "HasHeaderKey"}, {"type", "RecordIsTombstone"}, {"type", "TopicNameMatches", "pattern", "("}, {"type", "TopicNameMatches"}, {"type", "Nope"},
	}
)

func changed(good map[string]string, prefix string, pairs []string, more ...string) map[string]string {
	config := maps.Clone(good)
	for i := 0; i < len(pairs); i += 2 {
		switch {
		case pairs[i+1] == "null":
			delete(config, pairs[i])
		case prefix != "" && pairs[i] == "type":
			config[prefix+"type"] = "org.apache.kafka.connect.transforms." + pairs[i+1]
		default:
			config[prefix+pairs[i]] = pairs[i+1]
		}
	}
	for i := 0; i < len(more); i += 2 {
		config[more[i]] = more[i+1]
	}
	return config
}

// validations has the worker check configurations, of which it keeps the keys that something is wrong with.
func (r *recorder) validations() []jvmtest.Validation {
	var configs []map[string]string
	for _, good := range []map[string]string{goodSource, goodSink} {
		for _, pairs := range ofBoth {
			configs = append(configs, changed(good, "", pairs))
		}
	}
	for _, pairs := range ofSinks {
		configs = append(configs, changed(goodSink, "", pairs))
	}
	for _, pairs := range ofSources {
		configs = append(configs, changed(goodSource, "", pairs))
	}
	const tombs = "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone"
	for _, pairs := range ofTransforms {
		configs = append(configs, changed(goodSource, "transforms.a.", pairs, "transforms", "a", "predicates", "p", "predicates.p.type", tombs))
	}
	for _, pairs := range ofPredicates {
		pairs = append([]string{"type", "predicates." + pairs[1]}, pairs[2:]...)
		configs = append(configs, changed(goodSource, "predicates.p.", pairs, "predicates", "p"))
	}
	var all []jvmtest.Validation
	for _, config := range configs {
		all = append(all, r.validation(config))
	}
	return all
}

func (r *recorder) validation(config map[string]string) jvmtest.Validation {
	body, err := json.Marshal(config)
	if err != nil {
		fail(err)
	}
	e := r.ask(http.MethodPut, "/connector-plugins/"+config["connector.class"]+"/config/validate", string(body))
	v := jvmtest.Validation{Config: config, Status: e.Status, Wrong: []string{}}
	if e.Status != http.StatusOK {
		return v
	}
	var answer struct {
		Configs []struct {
			Value struct {
				Name   string
				Errors []string
			}
		}
	}
	if err := json.Unmarshal(e.Answer, &answer); err != nil {
		fail(err)
	}
	for _, one := range answer.Configs {
		if len(one.Value.Errors) > 0 {
			v.Wrong = append(v.Wrong, one.Value.Name)
		}
	}
	return v
}
