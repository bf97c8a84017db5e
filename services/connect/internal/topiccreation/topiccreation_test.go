package topiccreation

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

func with(pairs ...string) map[string]string {
	config := map[string]string{"name": "orders", "topic.creation.default.partitions": "3", "topic.creation.default.replication.factor": "-1"}
	for i := 0; i < len(pairs); i += 2 {
		config[pairs[i]] = pairs[i+1]
	}
	return config
}

func TestTheFirstGroupThatMatchesCounts(t *testing.T) {
	g, err := New(with("topic.creation.groups", "logs, compacted,default", "topic.creation.default.retention.ms", "5", "topic.creation.default.include", "nothing",
		"topic.creation.logs.include", `audit-\d+,logs\..*`, "topic.creation.logs.exclude", `.*\.private`, "topic.creation.logs.partitions", "7",
		"topic.creation.compacted.include", "logs.*", "topic.creation.compacted.replication.factor", "2", "topic.creation.compacted.cleanup.policy", "compact"))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]Topic{
		"audit-12":       {Partitions: 7, ReplicationFactor: -1, Group: "logs"},
		"audit-12x":      {Partitions: 3, ReplicationFactor: -1, Group: "default", Configs: map[string]string{"retention.ms": "5"}},
		"logs.a":         {Partitions: 7, ReplicationFactor: -1, Group: "logs"},
		"logs.a.private": {Partitions: 3, ReplicationFactor: 2, Group: "compacted", Configs: map[string]string{"cleanup.policy": "compact"}},
		"my-logs":        {Partitions: 3, ReplicationFactor: -1, Group: "default", Configs: map[string]string{"retention.ms": "5"}},
	}
	for name, want := range tests {
		got := g.Topic(name)
		if got.Name != name || got.Partitions != want.Partitions || got.ReplicationFactor != want.ReplicationFactor || got.Group != want.Group || !maps.Equal(got.Configs, want.Configs) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

func TestNoGroups(t *testing.T) {
	if g, err := New(map[string]string{"topic.prefix": "x"}); g != nil || err != nil {
		t.Errorf("%v, %v", g, err)
	}
	if d := Definition(nil); len(d) != 1 || d[0].Name != "topic.creation.groups" {
		t.Errorf("%v", d)
	}
}

func TestWhatIsRefused(t *testing.T) {
	tests := map[string]map[string]string{
		"topic.creation.default.partitions is required":         {"topic.creation.default.replication.factor": "1"},
		"topic.creation.default.replication.factor is required": {"topic.creation.groups": ""},
		"a positive number is wanted, or -1":                    with("topic.creation.default.partitions", "0"),
		"topic.creation.logs.replication.factor":                with("topic.creation.groups", "logs", "topic.creation.logs.replication.factor", "-2"),
		"topic.creation.logs.include":                           with("topic.creation.groups", "logs", "topic.creation.logs.include", "a(b"),
		"topic.creation.logs.exclude":                           with("topic.creation.groups", "logs", "topic.creation.logs.exclude", "(?=x)"),
		"group logs is there twice":                             with("topic.creation.groups", "logs,b,logs"),
		"has no name":                                           with("topic.creation.groups", "logs,,b"),
	}
	for want, config := range tests {
		if _, err := New(config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", config, err, want)
		}
	}
}

func TestDefinitions(t *testing.T) {
	config := with("topic.creation.groups", "logs,logs,default", "topic.creation.default.partitions", "5")
	d := Definition(config)
	if err := d.Check(); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, k := range d {
		names = append(names, strings.TrimPrefix(k.Name, prefix))
	}
	want := []string{"groups", "default.include", "default.exclude", "default.replication.factor", "default.partitions",
		"logs.include", "logs.exclude", "logs.replication.factor", "logs.partitions"}
	if !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
	if k := d.Find("topic.creation.logs.partitions"); k.Required || *k.Default != "5" {
		t.Errorf("%+v", k)
	}
	if k := d.Find("topic.creation.default.partitions"); !k.Required || k.Default != nil {
		t.Errorf("%+v", k)
	}
}
