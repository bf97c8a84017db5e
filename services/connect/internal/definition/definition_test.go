package definition

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/services/connect/internal/herder"
	"github.com/cauce-stream/cauce/services/connect/internal/jvmtest"
	"github.com/cauce-stream/cauce/services/connect/internal/workerconfig"
)

const (
	jsonConverter = "org.apache.kafka.connect.json.JsonConverter"
	simple        = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
)

// worker is one with further properties.
func worker(t *testing.T, more map[string]string) Worker {
	t.Helper()
	p := map[string]string{
		"group.id": jvmtest.Group, "key.converter": jsonConverter, "value.converter": jsonConverter,
		"config.storage.topic": jvmtest.ConfigTopic, "offset.storage.topic": jvmtest.OffsetTopic, "status.storage.topic": jvmtest.StatusTopic,
	}
	maps.Copy(p, more)
	c, err := workerconfig.Parse(p, "worker.properties")
	if err != nil {
		t.Fatal(err)
	}
	return Worker{Config: c, Version: "4.3.1"}
}

// fileKeys are those of Kafka's file connectors.
var fileKeys = configdef.Definition{
	{Name: "file", Type: configdef.String, Importance: configdef.High, Doc: "x"},
	{Name: "topic", Type: configdef.String, Required: true, Importance: configdef.High, Doc: "x", Valid: configdef.Rule{NonEmpty: true}},
	{Name: "batch.size", Type: configdef.Int, Default: new("2000"), Importance: configdef.Low, Doc: "x"},
}

func file(config map[string]string) Connector {
	return Connector{Class: config["connector.class"], Type: herder.Source, Version: "4.3.1", Keys: fileKeys, Values: fileKeys.Validate(config), Guarantees: plugin.Guarantees{ExactlyOnce: true}}
}

func sink(config map[string]string) Connector {
	keys := configdef.Definition{fileKeys[0]}
	return Connector{Class: config["connector.class"], Type: herder.Sink, Version: "1.0", Keys: keys, Values: keys.Validate(config)}
}

// jvmKey is a key as the REST interface shows it.
type jvmKey struct {
	Name        string   `json:"name"`
	Type        string   `json:"type"`
	Required    bool     `json:"required"`
	Default     *string  `json:"default_value"`
	Importance  string   `json:"importance"`
	Group       *string  `json:"group"`
	Order       int      `json:"order_in_group"`
	Width       string   `json:"width"`
	DisplayName string   `json:"display_name"`
	Dependents  []string `json:"dependents"`
}

type jvmValue struct {
	Name        string   `json:"name"`
	Value       *string  `json:"value"`
	Recommended []string `json:"recommended_values"`
	Errors      []string `json:"errors"`
	Visible     bool     `json:"visible"`
}

func text(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

func compareKey(t *testing.T, ours *configdef.Key, theirs jvmKey) {
	t.Helper()
	if ours == nil {
		t.Errorf("%s is missing", theirs.Name)
		return
	}
	display, width, group, order := ours.DisplayName, string(ours.Width), ours.Group, ours.Order
	if display == "" {
		display = ours.Name
	}
	if width == "" {
		width = "NONE"
	}
	if group == "" {
		group, order = "null", -1
	}
	if string(ours.Type) != theirs.Type || ours.Required != theirs.Required || text(ours.Default) != text(theirs.Default) || string(ours.Importance) != theirs.Importance ||
		group != text(theirs.Group) || order != theirs.Order || width != theirs.Width || display != theirs.DisplayName || !slices.Equal(ours.Dependents, theirs.Dependents) {
		t.Errorf("%s is %+v (default %s), a JVM's %+v (default %s)", theirs.Name, *ours, text(ours.Default), theirs, text(theirs.Default))
	}
}

// TestJVM compares what a JVM worker says of its file source with what is said here of the same keys.
func TestJVM(t *testing.T) {
	w := worker(t, map[string]string{"exactly.once.source.support": "enabled"})
	compared := 0
	for _, e := range jvmtest.Exchanges(t) {
		if e.Status != 200 || !strings.HasPrefix(e.Path, "/connector-plugins/FileStream") {
			continue
		}
		compared++
		if e.Method == "GET" {
			var theirs []jvmKey
			parse(t, e.Answer, &theirs)
			d := Definition(Connector{Type: herder.Source, Version: "4.3.1", Keys: fileKeys})
			if len(d) != len(theirs) {
				t.Errorf("%s: %d keys, a JVM has %d", e.Path, len(d), len(theirs))
			}
			for i := range theirs {
				compareKey(t, &d[i], theirs[i])
			}
			continue
		}
		compareValidation(t, w, e)
	}
	if compared != 5 {
		t.Errorf("%d exchanges were compared", compared)
	}
}

func parse(t *testing.T, b []byte, to any) {
	t.Helper()
	if err := json.Unmarshal(b, to); err != nil {
		t.Fatal(err)
	}
}

func compareValidation(t *testing.T, w Worker, e jvmtest.Exchange) {
	t.Helper()
	var config map[string]string
	parse(t, []byte(e.Body), &config)
	var theirs struct {
		Name    string
		Groups  []string
		Configs []struct {
			Definition jvmKey
			Value      jvmValue
		}
	}
	parse(t, e.Answer, &theirs)
	v := w.Validate(file(config), config)
	if v.Name != theirs.Name || !slices.Equal(v.Groups, theirs.Groups) || len(v.Values) != len(theirs.Configs) {
		t.Fatalf("%s: %s with groups %v and %d values, a JVM says %s, %v, %d", e.Body, v.Name, v.Groups, len(v.Values), theirs.Name, theirs.Groups, len(theirs.Configs))
	}
	for i, one := range theirs.Configs {
		compareKey(t, v.Definition.Find(one.Definition.Name), one.Definition)
		ours := v.Values[i]
		if ours.Name != one.Value.Name || ours.Visible != one.Value.Visible || (len(ours.Errors) > 0) != (len(one.Value.Errors) > 0) {
			t.Errorf("%s: %+v, a JVM says %+v", e.Body, ours, one.Value)
		}
		// What is wrong is shown here, and is null there. There are transforms here that Kafka does not have.
		if len(ours.Errors) == 0 && text(ours.Value) != text(one.Value.Value) {
			t.Errorf("%s: %s is %s, a JVM says %s", e.Body, ours.Name, text(ours.Value), text(one.Value.Value))
		}
		for _, class := range one.Value.Recommended {
			if !slices.Contains(ours.Recommended, class) {
				t.Errorf("%s: %s does not recommend %s", e.Body, ours.Name, class)
			}
		}
	}
}

// TestPlugins finds all that a JVM worker lists beside connectors.
func TestPlugins(t *testing.T) {
	ours := worker(t, nil).Plugins()
	for _, e := range jvmtest.Exchanges(t) {
		if e.Path != "/connector-plugins?connectorsOnly=false" {
			continue
		}
		var theirs []Plugin
		parse(t, e.Answer, &theirs)
		for _, p := range theirs {
			if p.Type != "source" && p.Type != "sink" && !slices.Contains(ours, p) {
				t.Errorf("there is no %+v", p)
			}
		}
	}
	for _, name := range []string{jsonConverter, "Json", "Cast$Key", "RecordIsTombstone"} {
		if _, ok := Find(name); !ok {
			t.Errorf("%s is not found", name)
		}
	}
	if _, ok := Find("nothing"); ok {
		t.Error("nothing is found")
	}
}

// TestDefinitions are in order themselves.
func TestDefinitions(t *testing.T) {
	for _, kind := range []herder.Type{herder.Source, herder.Sink} {
		if err := Definition(Connector{Type: kind}).Check(); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestCheck(t *testing.T) {
	if err := worker(t, nil).Check(); err != nil {
		t.Error(err)
	}
	for key, value := range map[string]string{
		"key.converter": "NoConverter", "value.converter": simple, "header.converter": "x", "value.converter.decimal.format": "BASE65",
		"connector.client.config.override.policy": "Some",
	} {
		if err := worker(t, map[string]string{key: value}).Check(); err == nil || !strings.Contains(err.Error(), value) {
			t.Errorf("%s=%s: %v", key, value, err)
		}
	}
}

// fault is what is wrong with a key, "" for nothing; ok says that the key is shown.
func fault(v *herder.Validation, key string) (text string, ok bool) {
	for _, value := range v.Values {
		if value.Name == key {
			return strings.Join(value.Errors, "; "), true
		}
	}
	return "", false
}

// check expects that a configuration is refused for one key, with words; nothing else is wrong with it. No words expect that all is well.
func check(t *testing.T, w Worker, of func(map[string]string) Connector, config map[string]string, key, words string) {
	t.Helper()
	v := w.Validate(of(config), config)
	for _, value := range v.Values {
		if value.Name != key && len(value.Errors) > 0 {
			t.Errorf("%v: %v", config, value.Errors)
		}
	}
	if key == "" {
		return
	}
	text, ok := fault(v, key)
	if !ok || !strings.HasPrefix(text, key) && words != "" || !strings.Contains(text, words) || words == "" && text != "" {
		t.Errorf("%v: %s has fault %q, not %q", config, key, text, words)
	}
}

// with is a configuration with further properties, key after value.
func with(config map[string]string, more ...string) map[string]string {
	config = maps.Clone(config)
	for i := 0; i < len(more); i += 2 {
		config[more[i]] = more[i+1]
	}
	return config
}

func TestSource(t *testing.T) {
	good := map[string]string{"connector.class": "FileStreamSource", "name": "a", "topic": "t"}
	plain, exact := worker(t, nil), worker(t, map[string]string{"exactly.once.source.support": "enabled"})
	for _, test := range []struct{ key, value, words string }{
		{"name", "", "must not be empty"},
		{"name", "a\x00b", "control characters"},
		{"tasks.max", "0", "at least 1"},
		{"errors.tolerance", "some", "one of none, all"},
		{"errors.retry.timeout", "-2", "at least -1"},
		{"config.action.reload", "never", "one of none, restart"},
		{"key.converter", "NoConverter", "no such converter"},
		{"key.converter", simple, "no keys"},
		{"key.converter", "Json", ""},
		{"connector.plugin.version", "[4.0,5)", ""},
		{"connector.plugin.version", "5.0", `version "4.3.1"`},
		{"connector.plugin.version", "[5.0", "no range"},
		{"key.converter.plugin.version", "3.0", ""}, // of no converter that is named
		{"exactly.once.support", "never", "one of requested, required"},
		{"exactly.once.support", "Required", "exactly.once.source.support is disabled"},
		{"transaction.boundary", "connector", "does not say where transactions end"},
		{"transaction.boundary", "interval", ""},
		{"transaction.boundary.interval.ms", "-1", "at least 0"},
		{"offsets.storage.topic", " ", "must not be empty"},
		{"producer.override.acks", "1", ""},
		{"producer.override.acks", "2", `is "2": not among`},
		{"producer.override.unknown", "x", ""},
		{"producer.override.security.protocol", "sasl_ssl", ""}, // the rest may be in the file of another worker
		{"producer.override.security.protocol", "TLS", `is "TLS": not among PLAINTEXT, SSL`},
		{"topic", "", "must not be empty"},
	} {
		check(t, plain, file, with(good, test.key, test.value), test.key, test.words)
	}
	check(t, exact, file, with(good, "exactly.once.support", "required"), "exactly.once.support", "")
	careless := func(config map[string]string) Connector {
		c := file(config)
		c.Guarantees = plugin.Guarantees{}
		return c
	}
	check(t, exact, careless, with(good, "exactly.once.support", "required"), "exactly.once.support", "does not promise it")
	able := func(config map[string]string) Connector {
		c := file(config)
		c.Guarantees.Transactions = true
		return c
	}
	check(t, exact, able, with(good, "transaction.boundary", "CONNECTOR"), "transaction.boundary", "")
	if text, ok := fault(plain.Validate(file(good), with(good, "consumer.override.group.id", "x")), "consumer.override.group.id"); ok {
		t.Errorf("a source without consumers is told of them: %q", text)
	}
}

// TestOverridesGoWithWhatTheWorkerHas has a property be wrong only together with one of the worker's.
func TestOverridesGoWithWhatTheWorkerHas(t *testing.T) {
	config := map[string]string{"connector.class": "FileStreamSource", "name": "a", "topic": "t"}
	const inFlight = "producer.override.max.in.flight.requests.per.connection"
	check(t, worker(t, nil), file, with(config, inFlight, "6"), inFlight, "")
	w := worker(t, map[string]string{"producer.enable.idempotence": "true"})
	check(t, w, file, with(config, inFlight, "6"), inFlight, "between 1 and 5")
	both := with(config, inFlight, "6", "producer.override.acks", "2")
	for _, key := range []string{inFlight, "producer.override.acks"} {
		if text, _ := fault(w.Validate(file(both), both), key); text == "" {
			t.Errorf("%s is not said to be wrong beside another", key)
		}
	}
	bad := worker(t, map[string]string{"producer.linger.ms": "soon"})
	if text, ok := fault(bad.Validate(file(config), config), "producer.override.linger.ms"); ok {
		t.Errorf("a connector is blamed for what the worker has: %s", text)
	}
}

func TestTopicCreation(t *testing.T) {
	good := map[string]string{
		"connector.class": "FileStreamSource", "name": "a", "topic": "t", "topic.creation.groups": "big", "topic.creation.default.partitions": "1",
		"topic.creation.default.replication.factor": "1", "topic.creation.big.include": "b.*", "topic.creation.big.partitions": "9", "admin.override.request.timeout.ms": "5",
	}
	for _, test := range []struct{ key, value, words string }{
		{"topic.creation.big.partitions", "7", ""},
		{"topic.creation.big.partitions", "0", "a positive number"},
		{"topic.creation.big.include", "(", "topic.creation.big.include is"},
		{"topic.creation.default.partitions", "x", "integer"},
		{"admin.override.request.timeout.ms", "7", ""},
	} {
		check(t, worker(t, nil), file, with(good, test.key, test.value), test.key, test.words)
	}
	off := worker(t, map[string]string{"topic.creation.enable": "false"})
	if _, ok := fault(off.Validate(file(good), with(good, "topic.creation.big.partitions", "0")), "topic.creation.big.partitions"); ok {
		t.Error("a worker that creates no topics speaks of them")
	}
}

func TestSink(t *testing.T) {
	good := map[string]string{"connector.class": "FileStreamSink", "name": "a", "topics": "t,u"}
	w := worker(t, map[string]string{"group.id": "connect-x"})
	for _, test := range []struct{ key, value, words string }{
		{"file", "f", ""},
		{"topics", "a,,b", "empty"},
		{"topics", "a, a", "twice"},
		{"name", "x", "group of the workers"},
		{"consumer.override.group.id", "connect-x", "group of the workers"},
		{"consumer.override.group.id", "other", ""},
		{"consumer.override.max.poll.records", "100", ""},
		{"consumer.override.max.poll.records", "zz", `is "zz": not a number between 1`},
		{"consumer.override.group.protocol", "share", "not among classic, consumer"},
		{"errors.deadletterqueue.topic.name", "dead", ""},
		{"errors.deadletterqueue.topic.replication.factor", "many", "integer of 16 bits"},
	} {
		check(t, w, sink, with(good, test.key, test.value), test.key, test.words)
	}
	check(t, w, sink, with(good, "errors.deadletterqueue.topic.name", " u "), "topics", `"u"`)
	check(t, w, sink, with(good, "name", "x", "consumer.override.group.id", "mine"), "name", "")
	for _, test := range []struct{ topics, regex, dead, words string }{
		{"", "t.*", "", ""},
		{"", "t.*", "dead", ""},
		{"", "t.*", "tomb", "matches"},
		{"", "(", "", "topics.regex is"},
		{"t", "t", "", "both set"},
		{" ", " ", "", "is required"},
	} {
		config := with(good, "topics", test.topics, "topics.regex", test.regex, "errors.deadletterqueue.topic.name", test.dead)
		text, _ := fault(w.Validate(sink(config), config), "topics.regex")
		if !strings.Contains(text, test.words) || test.words == "" && text != "" {
			t.Errorf("%+v: %q", test, text)
		}
	}
}

func TestStages(t *testing.T) {
	w := worker(t, nil)
	good := map[string]string{
		"connector.class": "FileStreamSource", "name": "a", "topic": "t", "transforms": "hoist, route", "predicates": "tombs",
		"transforms.hoist.type": "HoistField$Value", "transforms.hoist.field": "line",
		"transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter", "transforms.route.regex": "(.*)", "transforms.route.replacement": "x-$1",
		"transforms.route.predicate": "tombs", "transforms.route.negate": "true", "predicates.tombs.type": "RecordIsTombstone",
	}
	for _, test := range []struct{ key, value, words string }{
		{"transforms.hoist.field", "", ""},
		{"transforms.hoist.plugin.version", "4.3.1", ""},
		{"transforms.hoist.plugin.version", "(,4)", `version "4.3.1"`},
		{"transforms.hoist.negate", "true", "no transforms.hoist.predicate"},
		{"transforms.route.predicate", "others", "not in the list predicates"},
		{"transforms.route.negate", "yes", "true or false"},
		{"transforms.route.regex", "(", "does not do"},
		{"predicates", "tombs,tombs", "twice"},
	} {
		check(t, w, file, with(good, test.key, test.value), test.key, test.words)
	}
	check(t, w, file, with(good, "transforms", "hoist,,route"), "transforms", "empty")
	check(t, w, file, with(good, "transforms.hoist.type", "SetSchemaMetadata$Value"), "transforms.hoist.type", "cannot be made")
	check(t, w, file, with(good, "predicates.tombs.type", "TopicNameMatches", "predicates.tombs.pattern", "["), "predicates.tombs.pattern", "does not do")
	v := w.Validate(file(good), with(good, "transforms", "hoist,gone,odd", "transforms.odd.type", "Odd"))
	if text, _ := fault(v, "transforms.gone.type"); !strings.Contains(text, "required") {
		t.Errorf("a transform without a type: %q", text)
	}
	if text, _ := fault(v, "transforms.odd.type"); !strings.Contains(text, "no such transformation") {
		t.Errorf("an unknown type: %q", text)
	}
	missing := maps.Clone(good)
	delete(missing, "transforms.route.replacement")
	check(t, w, file, missing, "transforms.route.replacement", "is required")
	k := v.Definition.Find("transforms.hoist.field")
	if k.Group != "Transforms: hoist" || k.Order != 2 || k.DisplayName != "field" {
		t.Errorf("%+v", k)
	}
	if !slices.Contains(v.Groups, "Predicates: tombs") {
		t.Errorf("groups %v", v.Groups)
	}
}

// TestConverters takes nothing of the worker's for a converter that a connector names, nor keys of a connector that names none.
func TestConverters(t *testing.T) {
	w := worker(t, map[string]string{"value.converter.decimal.format": "BASE64"})
	good := map[string]string{"connector.class": "FileStreamSource", "name": "a", "topic": "t"}
	const enable = "value.converter.schemas.enable"
	check(t, w, file, with(good, "value.converter", jsonConverter, enable, "false"), enable, "")
	check(t, w, file, with(good, "value.converter", jsonConverter, enable, "maybe"), enable, "true or false")
	check(t, w, file, with(good, "value.converter", jsonConverter, "value.converter.schema.content", "{"), "value.converter.schema.content", "breaks off")
	check(t, w, file, with(good, "key.converter", "Json", "key.converter.plugin.version", "3.0"), "key.converter.plugin.version", `version "4.3.1"`)
	config := with(good, enable, "maybe")
	if _, ok := fault(w.Validate(file(config), config), enable); ok {
		t.Error("a key is checked of a converter that the connector does not name")
	}
}

func TestPolicies(t *testing.T) {
	good := map[string]string{"connector.class": "FileStreamSink", "name": "a", "topics": "t", "errors.deadletterqueue.topic.name": "dead"}
	const jaas, poll = "producer.override.sasl.jaas.config", "consumer.override.max.poll.records"
	for _, test := range []struct{ policy, key, words string }{
		{"All", poll, ""}, {"All", jaas, ""}, {"None", poll, "is None"}, {"None", jaas, "is None"}, {"Principal", poll, "is Principal"}, {"Principal", jaas, ""},
		{"org.apache.kafka.connect.connector.policy.PrincipalConnectorClientConfigOverridePolicy", poll, "is Principal"},
		{"Allowlist", poll, ""}, {"Allowlist", jaas, "is Allowlist"}, {"Some", poll, `no policy "Some"`},
	} {
		w := worker(t, map[string]string{policyKey: test.policy, allowlistKey: "max.poll.records, acks"})
		check(t, w, sink, with(good, test.key, "7"), test.key, test.words)
	}
	config := with(good, jaas, "password", poll, "7")
	for _, value := range worker(t, nil).Validate(sink(config), config).Values {
		if value.Name == jaas && *value.Value != configdef.Hidden || value.Name == poll && *value.Value != "7" {
			t.Errorf("%s is shown as %q", value.Name, *value.Value)
		}
	}
}

// TestShared has a plugin define a key that all connectors have.
func TestShared(t *testing.T) {
	keys := configdef.Definition{{Name: "tasks.max", Type: configdef.Int, Default: new("3"), Importance: configdef.Low, Doc: "x", Group: "Own", Valid: configdef.Rule{Max: new(4.0)}}}
	config := map[string]string{"connector.class": "c", "name": "a", "tasks.max": "5"}
	c := Connector{Class: "c", Type: herder.Source, Keys: keys, Values: append(keys.Validate(config), configdef.Value{Name: "odd", Errors: []string{"odd is odd"}})}
	v := worker(t, nil).Validate(c, config)
	k := v.Definition.Find("tasks.max")
	if *k.Default != "3" || !slices.Contains(v.Groups, "Own") {
		t.Errorf("%+v, %v", k, v.Groups)
	}
	if got := v.Errors(); len(got) != 2 || !strings.Contains(got[0], "at most 4") || got[1] != "odd is odd" {
		t.Errorf("%q", got)
	}
	if d := Definition(c); *d[0].Default != "3" || len(d) != len(commonKeys(c)) {
		t.Errorf("%+v", d[0])
	}
}
