package kit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/libs/plugin/data"
)

// counter is a source of numbers that has the fault that it is called after, or none.
type counter struct{ fault string }

func (c counter) Info() plugin.Info { return plugin.Info{Name: "counter", Version: "1"} }

func (c counter) Definition() configdef.Definition {
	return configdef.Definition{{Name: "last", Type: configdef.Int, Required: true, Importance: configdef.High, Doc: "the last number"}}
}

func (c counter) Validate(_ context.Context, config map[string]string) ([]configdef.Finding, error) {
	switch {
	case c.fault == "panics" && config["last"] == "-1":
		panic("negative")
	case c.fault == "refuses":
		return []configdef.Finding{{Name: "last", Errors: []string{"too large"}}}, nil
	case config["last"] == "-1":
		return nil, errors.New("cannot say")
	}
	return nil, nil
}

var division int

func (c counter) TaskConfigs(_ context.Context, config map[string]string, maxTasks int) ([]map[string]string, error) {
	switch c.fault {
	case "no tasks":
		return nil, nil
	case "too many tasks":
		maxTasks++
	case "other tasks":
		division++
		return []map[string]string{{"n": fmt.Sprint(division)}}, nil
	}
	return slices.Repeat([]map[string]string{config}, maxTasks), nil
}

func (c counter) NewSourceTask() plugin.SourceTask { return &counting{fault: c.fault} }

type counting struct {
	fault     string
	partition *plugin.SourcePartition
	last      int64
	Next      int64 `json:"next"`
}

func (c *counting) Start(ctx context.Context, s *plugin.SourceContext, config map[string]string) error {
	v, err := counter{}.Definition().Parse(config)
	if err != nil {
		return err
	}
	c.last = v.Int("last")
	if c.partition, err = s.Partition(ctx, struct{}{}); err != nil {
		return err
	}
	if _, err = c.partition.Offset(c); c.fault == "starts anew" {
		c.Next = 0
	}
	return err
}

func (c *counting) Poll(ctx context.Context) ([]plugin.SourceRecord, error) {
	switch {
	case c.fault == "fails" && c.Next == 2:
		return nil, errors.New("two")
	case c.fault == "hangs" && c.Next == c.last:
		select {}
	case c.Next == c.last || c.fault == "nothing":
		<-ctx.Done()
		return nil, ctx.Err()
	}
	r := data.NewRecord("numbers", data.Value{}, data.Value{Schema: &data.Schema{Type: data.TypeInt64}, V: c.Next})
	switch c.fault {
	case "no topic":
		r.Topic = ""
	case "no value":
		r.Value.V = "text"
	}
	c.Next++
	return []plugin.SourceRecord{{Record: r, Source: c.partition, Offset: map[string]int64{"next": c.Next}}}, nil
}

func (c *counting) Stop() error {
	if c.fault == "does not stop" {
		return errors.New("busy")
	}
	return nil
}

// keeper is a sink that has the fault that it is called after, or none.
type keeper struct{ fault string }

func (k keeper) Info() plugin.Info                { return plugin.Info{Name: "keeper", Version: "1"} }
func (k keeper) Definition() configdef.Definition { return nil }

func (k keeper) TaskConfigs(_ context.Context, config map[string]string, _ int) ([]map[string]string, error) {
	return []map[string]string{config}, nil
}

func (k keeper) NewSinkTask() plugin.SinkTask {
	return &keeping{fault: k.fault, open: map[plugin.TopicPartition]bool{}}
}

type keeping struct {
	fault string
	puts  int
	open  map[plugin.TopicPartition]bool
}

func (k *keeping) Start(context.Context, *plugin.SinkContext, map[string]string) error { return nil }

func (k *keeping) Open(_ context.Context, partitions []plugin.TopicPartition) error {
	for _, p := range partitions {
		k.open[p] = true
	}
	return nil
}

func (k *keeping) Close(_ context.Context, partitions []plugin.TopicPartition) error {
	for _, p := range partitions {
		if delete(k.open, p); k.fault == "does not close" && len(k.open) == 0 {
			return errors.New("open still")
		}
	}
	return nil
}

func (k *keeping) Put(_ context.Context, records []plugin.SinkRecord) error {
	k.puts++
	switch {
	case k.puts == 1:
		return plugin.Retriable(errors.New("not yet"))
	case k.fault == "not twice" && k.puts == 4:
		return errors.New("there already")
	case k.fault == "not none" && len(records) == 0:
		return errors.New("nothing")
	}
	return nil
}

func (k *keeping) PreCommit(_ context.Context, offsets map[plugin.TopicPartition]int64) (map[plugin.TopicPartition]int64, error) {
	for p := range offsets {
		switch k.fault {
		case "ahead":
			offsets[p]++
		case "others":
			return map[plugin.TopicPartition]int64{{Topic: "others"}: 1}, nil
		}
	}
	return offsets, nil
}

func (k *keeping) Stop() error {
	if k.fault == "does not stop" {
		return errors.New("busy")
	}
	return nil
}

// results checks a connector.
func results(t *testing.T, c plugin.Connector, given Case) []Result {
	t.Helper()
	connector, stop, err := InProcess(c)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if _, source := c.(plugin.SourceConnector); source {
		return CheckSource(t.Context(), connector, given)
	}
	return CheckSink(t.Context(), connector, given)
}

func TestGoodConnectorsPass(t *testing.T) {
	for _, c := range []plugin.Connector{counter{}, keeper{}} {
		all := results(t, c, Case{Config: map[string]string{"last": "10"}})
		if len(all) < len(commonChecks)+3 {
			t.Errorf("%d results", len(all))
		}
		for _, r := range all {
			if r.Fault != nil {
				t.Errorf("%s: %s: %v", c.Info().Name, r.Name, r.Fault)
			}
		}
	}
	if only := results(t, counter{}, Case{Config: map[string]string{"last": "3"}, Skip: []string{"defined", "divided", "reads", "stops"}}); len(only) != 1 || only[0].Name != "resumes" || !strings.Contains(only[0].Note, "of 3 on") {
		t.Errorf("results %+v", only)
	}
}

func TestFaultsOfConnectorsAreFound(t *testing.T) {
	tests := []struct {
		connector   plugin.Connector
		check, want string
	}{
		{counter{"panics"}, "defined", "panic: negative"},
		{counter{"refuses"}, "defined", "too large"},
		{counter{"no tasks"}, "divided", "0 tasks"},
		{counter{"too many tasks"}, "divided", "2 tasks, and 1 are allowed"},
		{counter{"other tasks"}, "divided", "at the second time"},
		{counter{"nothing"}, "reads", "no record within"},
		{counter{"fails"}, "reads", "two"},
		{counter{"no topic"}, "reads", "no topic"},
		{counter{"no value"}, "reads", "string is no value of INT64"},
		{counter{"starts anew"}, "resumes", "comes 0, not"},
		{counter{"does not stop"}, "stops", "busy"},
		{counter{"hangs"}, "stops", "did not stop in time"},
		{keeper{"not twice"}, "writes", "there already"},
		{keeper{"not none"}, "writes", "putting 0 records: nothing"},
		{keeper{"ahead"}, "writes", "was given the records before"},
		{keeper{"others"}, "follows", "others-0"},
		{keeper{"does not close"}, "follows", "open still"},
		{keeper{"does not stop"}, "stops", "busy"},
	}
	first, stop := firstRecordLimit, stopLimit
	t.Cleanup(func() { firstRecordLimit, stopLimit = first, stop })
	for _, test := range tests {
		firstRecordLimit, stopLimit = first, stop
		switch test.connector {
		case counter{"nothing"}:
			firstRecordLimit = quiet
		case counter{"hangs"}:
			stopLimit = quiet
		}
		names := SinkNames()
		config := map[string]string{}
		if _, source := test.connector.(plugin.SourceConnector); source {
			names, config = SourceNames(), map[string]string{"last": "10"}
		}
		if test.connector == (counter{"hangs"}) {
			config["last"] = "0"
		}
		skip := slices.DeleteFunc(names, func(name string) bool { return name == test.check })
		all := results(t, test.connector, Case{Config: config, Skip: skip})
		if len(all) != 1 || all[0].Fault == nil || !strings.Contains(all[0].Fault.Error(), test.want) {
			t.Errorf("%+v: %+v, want %q", test.connector, all, test.want)
		}
	}
}
