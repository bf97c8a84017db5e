package definition

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cauce-stream/cauce/services/connect/internal/herder"
	"github.com/cauce-stream/cauce/services/connect/internal/jvmtest"
)

// differences are settings of which other keys are found wrong here, and why.
var differences = map[string]struct {
	wrong []string
	why   string
}{
	"errors.retry.timeout=-2":                            {[]string{"errors.retry.timeout"}, "only -1 is for ever"},
	"errors.retry.delay.max.ms=-1":                       {[]string{"errors.retry.delay.max.ms"}, "there is no time before now"},
	"errors.deadletterqueue.topic.replication.factor=-5": {[]string{"errors.deadletterqueue.topic.replication.factor"}, "no topic can be created so"},
	"transforms=a,,b":                                    {[]string{"transforms", "transforms.a.type", "transforms.b.type"}, "the list is wrong, not the type of nothing"},
	"connector.plugin.version=9":                         {[]string{"connector.plugin.version"}, "the class is there, the version is not"},
	"producer.override.acks=2":                           {[]string{"producer.override.acks"}, "the task would fail"},
	"topic.creation.groups=a,a":                          {[]string{"topic.creation.groups", "topic.creation.default.replication.factor", "topic.creation.default.partitions"}, "the task would fail"},
	"topic.creation.default.partitions=x":                {[]string{"topic.creation.default.partitions", "topic.creation.default.replication.factor"}, "the task would fail"},
	"transforms.a.type=Filter predicate=q":               {[]string{"transforms.a.predicate"}, "the task would fail"},
	"transforms.a.type=Filter negate=true":               {[]string{"transforms.a.negate"}, "the type is right"},
	"transforms.a.type=Filter plugin.version=9":          {[]string{"transforms.a.plugin.version"}, "the class is there, the version is not"},
	"transforms.a.type=InsertField$Value":                {[]string{"transforms.a.type"}, "it would insert nothing"},
	"transforms.a.type=SetSchemaMetadata$Value":          {[]string{"transforms.a.type"}, "it would set nothing"},
}

// TestValidationsOfJVM finds the same keys wrong as a JVM worker does, but where it is said why not.
func TestValidationsOfJVM(t *testing.T) {
	w := worker(t, map[string]string{"exactly.once.source.support": "enabled"})
	used := map[string]bool{}
	for _, theirs := range jvmtest.Validations(t) {
		of := file
		if theirs.Config["connector.class"] == "FileStreamSink" {
			of = func(config map[string]string) Connector {
				c := sink(config)
				c.Version = "4.3.1"
				return c
			}
		}
		v := w.Validate(of(theirs.Config), theirs.Config)
		want, what := slices.Sorted(slices.Values(theirs.Wrong)), setting(theirs.Config)
		if d, ok := differences[what]; ok {
			want, used[what] = slices.Sorted(slices.Values(d.wrong)), true
		}
		if got := wrong(v); !slices.Equal(got, want) {
			t.Errorf("%s: %q are wrong (%q), not %q", what, got, v.Errors(), want)
		}
	}
	if len(used) != len(differences) {
		t.Errorf("of the differences only %v are seen", slices.Sorted(maps.Keys(used)))
	}
}

func wrong(v *herder.Validation) []string {
	keys := []string{}
	for _, value := range v.Values {
		if len(value.Errors) > 0 {
			keys = append(keys, value.Name)
		}
	}
	slices.Sort(keys)
	return keys
}

// setting is what makes a recorded configuration another than those that are right.
func setting(config map[string]string) string {
	right := map[string]string{"name": "a", "topic": "t", "topics": "t", "file": "x", "connector.class": config["connector.class"], "predicates": "p", "transforms": "a", "predicates.p.type": "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone"}
	if config["transforms.a.type"] == "" {
		delete(right, "transforms")
	}
	var parts []string
	if class, ok := config["transforms.a.type"]; ok {
		parts = append(parts, "transforms.a.type="+strings.TrimPrefix(class, "org.apache.kafka.connect.transforms."))
	}
	for _, key := range slices.Sorted(maps.Keys(config)) {
		if config[key] != right[key] && key != "transforms.a.type" {
			parts = append(parts, fmt.Sprintf("%s=%s", strings.TrimPrefix(key, "transforms.a."), config[key]))
		}
	}
	return strings.Join(parts, " ")
}
