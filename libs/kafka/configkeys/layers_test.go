package configkeys

import (
	"testing"

	"github.com/cauce-stream/cauce/libs/config"
)

func static(t *testing.T, pairs map[string]string) Values {
	t.Helper()
	v, err := config.FromMap(Broker(), pairs)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// pairs makes a map of alternating names and values.
func pairs(namesAndValues ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(namesAndValues); i += 2 {
		m[namesAndValues[i]] = namesAndValues[i+1]
	}
	return m
}

func TestTopicConfigPrecedence(t *testing.T) {
	tests := []struct {
		name                             string
		static, cluster, broker, overlay map[string]string
		key, want                        string
	}{
		{"default", nil, nil, nil, nil, "retention.ms", "604800000"},
		{"hours", pairs("log.retention.hours", "1"), nil, nil, nil, "retention.ms", "3600000"},
		{"minutes before hours", pairs("log.retention.hours", "1", "log.retention.minutes", "2"), nil, nil, nil, "retention.ms", "120000"},
		{"ms before minutes", pairs("log.retention.minutes", "2", "log.retention.ms", "5"), nil, nil, nil, "retention.ms", "5"},
		{"any negative time is for ever", pairs("log.retention.hours", "-7"), nil, nil, nil, "retention.ms", "-1"},
		{"overflow is for ever too", pairs("log.roll.hours", "2147483647"), nil, nil, nil, "segment.ms", "7730941129200000"},
		{"dynamic default", pairs("log.retention.ms", "5"), pairs("log.retention.ms", "6"), nil, nil, "retention.ms", "6"},
		{"a dynamic ms before static minutes", pairs("log.retention.minutes", "2"), pairs("log.retention.ms", "6"), nil, nil, "retention.ms", "6"},
		{"the node before the cluster", nil, pairs("log.retention.ms", "6"), pairs("log.retention.ms", "7"), nil, "retention.ms", "7"},
		{"the topic before all", nil, pairs("log.retention.ms", "6"), pairs("log.retention.ms", "7"), pairs("retention.ms", " 8 "), "retention.ms", "8"},
		{"flush falls back to the scheduler", pairs("log.flush.scheduler.interval.ms", "9"), nil, nil, nil, "flush.ms", "9"},
		{"other names", pairs("message.max.bytes", "10"), nil, nil, nil, "max.message.bytes", "10"},
		{"no stand-in", pairs(), nil, nil, nil, "remote.storage.enable", "false"},
		{"a list loses its repetitions", nil, nil, nil, pairs("cleanup.policy", "compact, delete,compact"), "cleanup.policy", "compact,delete"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := TopicConfig(static(t, test.static), test.cluster, test.broker, test.overlay)
			if got[test.key] != test.want {
				t.Errorf("%s = %q, want %q", test.key, got[test.key], test.want)
			}
			if len(got) != Topic().Len() {
				t.Errorf("%d values for %d keys", len(got), Topic().Len())
			}
		})
	}
}

func TestTopicConfigIgnoresUnknownOverrides(t *testing.T) {
	got := TopicConfig(static(t, nil), nil, nil, pairs("no.such.key", "1"))
	if _, ok := got["no.such.key"]; ok {
		t.Error("an unknown override is effective")
	}
}

func TestGroupConfigPrecedence(t *testing.T) {
	l := Layers{Static: static(t, pairs("group.consumer.session.timeout.ms", "46000")), ClusterDefault: pairs("group.consumer.assignment.interval.ms", "7")}
	got := l.GroupConfig(pairs("consumer.heartbeat.interval.ms", "6000"))
	for name, want := range map[string]string{
		"consumer.session.timeout.ms": "46000", "consumer.assignment.interval.ms": "7",
		"consumer.heartbeat.interval.ms": "6000", "share.auto.offset.reset": "latest",
	} {
		if got[name] != want {
			t.Errorf("%s = %q, want %q", name, got[name], want)
		}
	}
}

func TestLayersAsValues(t *testing.T) {
	l := Layers{
		Static:         static(t, pairs("message.max.bytes", "1000", "log.retention.ms", "1")),
		ClusterDefault: pairs("message.max.bytes", "2000", "log.retention.ms", "2", "key.of.a.newer.version", "x"),
		PerBroker:      pairs("log.retention.ms", "3", "max.connections", "many"),
	}
	v := l.Values()
	if v.Int("message.max.bytes") != 2000 || v.Long("log.retention.ms") != 3 || v.Int("max.connections") != 2147483647 {
		t.Errorf("message.max.bytes %d, log.retention.ms %d, max.connections %d", v.Int("message.max.bytes"), v.Long("log.retention.ms"), v.Int("max.connections"))
	}
}

func TestNodeIDAndFolders(t *testing.T) {
	tests := []struct {
		static   map[string]string
		id       int32
		logDirs  string
		metadata string
	}{
		{nil, 1, "", ""},
		{pairs("broker.id", "4", "data.dir", "/d"), 4, "/d/log", "/d/metadata"},
		{pairs("broker.id", "4", "node.id", "5", "data.dir", "/d", "log.dir", "/l"), 5, "/l", "/d/metadata"},
		{pairs("log.dirs", "/a,/b", "log.dir", "/l", "metadata.log.dir", "/m"), 1, "/a /b", "/m"},
	}
	for _, test := range tests {
		v := static(t, test.static)
		dirs := ""
		for i, dir := range LogDirs(v) {
			if i > 0 {
				dirs += " "
			}
			dirs += dir
		}
		if NodeID(v) != test.id || dirs != test.logDirs || MetadataDir(v) != test.metadata {
			t.Errorf("%v: node %d, logs %q, metadata %q", test.static, NodeID(v), dirs, MetadataDir(v))
		}
	}
}
