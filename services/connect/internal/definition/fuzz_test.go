package definition

import (
	"maps"
	"strings"
	"testing"

	"github.com/cauce-stream/cauce/services/connect/internal/workerconfig"
)

// FuzzValidate takes any configuration, and finds the same wrong with it each time, in sentences that begin with the key.
func FuzzValidate(f *testing.F) {
	for _, seed := range []string{
		"name=a\ntopics=t\ntopics.regex=(\nerrors.deadletterqueue.topic.name=t", "name=a\ntopic=t\ntransforms=a,b\ntransforms.a.type=Cast$Value\ntransforms.a.spec=x:int8\ntransforms.b.type=Filter\ntransforms.b.predicate=p\npredicates=p\npredicates.p.type=TopicNameMatches\npredicates.p.pattern=[",
		"transforms=a\ntransforms.a.type=FilterByExpression\ntransforms.a.condition=value.a >", "value.converter=Json\nvalue.converter.schema.content={\nkey.converter=String\nkey.converter.converter.encoding=x",
		"connector.plugin.version=[1,2),(3,\nproducer.override.acks=all\ntopic.creation.groups=a,a\ntopic.creation.a.include=(", "transforms=a\ntransforms.a.type=RegexRouter\ntransforms.a.regex=(?<a>x)\ntransforms.a.replacement=${a}\ntransforms.a.negate=x",
	} {
		f.Add(seed)
	}
	c, err := workerconfig.Parse(map[string]string{
		"group.id": "connect-a", "key.converter": jsonConverter, "value.converter": jsonConverter, "config.storage.topic": "c", "offset.storage.topic": "o", "status.storage.topic": "s",
	}, "worker.properties")
	if err != nil {
		f.Fatal(err)
	}
	w := Worker{Config: c, Version: "1.0"}
	f.Fuzz(func(t *testing.T, text string) {
		config := map[string]string{"connector.class": "c"}
		for line := range strings.SplitSeq(text, "\n") {
			if key, value, ok := strings.Cut(line, "="); ok {
				config[key] = value
			}
		}
		before := maps.Clone(config)
		for _, of := range []func(map[string]string) Connector{file, sink} {
			v := w.Validate(of(config), config)
			for _, value := range v.Values {
				for _, e := range value.Errors {
					if !strings.HasPrefix(e, value.Name+" ") {
						t.Errorf("%s: %q", value.Name, e)
					}
				}
			}
			if again := w.Validate(of(config), config); strings.Join(again.Errors(), "\n") != strings.Join(v.Errors(), "\n") {
				t.Errorf("%q and then %q", v.Errors(), again.Errors())
			}
		}
		if !maps.Equal(before, config) {
			t.Error("the configuration has changed")
		}
	})
}
