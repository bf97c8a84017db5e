package postgres

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/libs/plugin/kit"
	"github.com/cauce-stream/cauce/libs/plugin/remote"
	"github.com/cauce-stream/cauce/plugins/connectors/postgres/internal/ident"
)

// nowhere is a database that cannot be reached: what is checked here needs none. Package tests/e2e/postgres has one.
const nowhere = "jdbc:postgresql://127.0.0.1:1/none"

func TestDefinitions(t *testing.T) {
	for _, c := range []plugin.Connector{Source{}, Sink{}} {
		if err := c.Definition().Check(); err != nil {
			t.Errorf("%s: %v", c.Info().Name, err)
		}
		places := map[string]bool{}
		for _, k := range c.Definition() {
			place := k.Group + string(rune(k.Order))
			if places[place] || k.Group == "" {
				t.Errorf("%s: %s has the place of another key in its group", c.Info().Name, k.Name)
			}
			places[place] = true
		}
	}
}

// faults returns the keys in which a connector finds something wrong, and those that it hides.
func faults(t *testing.T, c plugin.ConfigValidator, config map[string]string) (wrong, hidden []string) {
	t.Helper()
	findings, err := c.Validate(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		if len(f.Errors) > 0 {
			wrong = append(wrong, f.Name)
		}
		if f.Hidden {
			hidden = append(hidden, f.Name)
		}
	}
	return wrong, hidden
}

func TestKeysOfTheSourceThatDoNotGoTogether(t *testing.T) {
	for _, test := range []struct {
		config map[string]string
		wrong  []string
	}{
		{map[string]string{"mode": "bulk"}, nil},
		{map[string]string{"mode": "timestamp"}, []string{"timestamp.column.name"}},
		{map[string]string{"mode": "timestamp", "timestamp.column.name": "a,,b"}, []string{"timestamp.column.name"}},
		{map[string]string{"mode": "timestamp+incrementing", "timestamp.column.name": "a"}, nil},
		{map[string]string{"mode": "incrementing", "query": "SELECT 1"}, []string{"incrementing.column.name"}},
		{map[string]string{"mode": "bulk", "query": "SELECT 1", "query.masked": "SELECT 2"}, []string{"query.masked"}},
		{map[string]string{"mode": "bulk", "query.masked": "SELECT 2", "table.blacklist": "a"}, []string{"query"}},
		{map[string]string{"mode": "bulk", "table.whitelist": "a", "table.blacklist": "b"}, []string{"table.blacklist"}},
		{map[string]string{"mode": "bulk", "table.include.list": "a", "table.exclude.list": "b"}, nil},
		{map[string]string{"mode": "bulk", "table.exclude.list": "b"}, []string{"table.exclude.list"}},
		{map[string]string{"mode": "bulk", "table.include.list": "("}, []string{"table.include.list"}},
		{map[string]string{"mode": "bulk", "incrementing.column.mapping": "a:b"}, []string{"incrementing.column.mapping"}},
		{map[string]string{"mode": "bulk", "db.timezone": "Local"}, []string{"db.timezone"}},
	} {
		test.config[urlKey], test.config[prefixKey] = nowhere, "p"
		if wrong, _ := faults(t, Source{}, test.config); !slices.Equal(wrong, test.wrong) {
			t.Errorf("%v: %v", test.config, wrong)
		}
	}
	_, hidden := faults(t, Source{}, map[string]string{urlKey: nowhere, prefixKey: "p", modeKey: "incrementing", queryKey: "SELECT 1", incrementingKey: "id"})
	if slices.Contains(hidden, incrementingKey) || !slices.Contains(hidden, timestampKey) || !slices.Contains(hidden, whitelistKey) {
		t.Errorf("hidden are %v", hidden)
	}
}

func TestKeysOfTheSinkThatDoNotGoTogether(t *testing.T) {
	for _, test := range []struct {
		config map[string]string
		wrong  []string
	}{
		{map[string]string{}, nil},
		{map[string]string{"insert.mode": "Upsert", "pk.mode": "Record_Key", "delete.enabled": "true"}, nil},
		{map[string]string{"insert.mode": "upsert"}, []string{"pk.mode"}},
		{map[string]string{"delete.enabled": "true"}, []string{"delete.enabled"}},
		{map[string]string{"table.name.format": "${topic}."}, []string{"table.name.format"}},
		{map[string]string{"fields.whitelist": "a,"}, []string{"fields.whitelist"}},
		{map[string]string{"timestamp.fields.list": "a"}, []string{"timestamp.fields.list"}},
	} {
		test.config[urlKey] = nowhere
		if wrong, _ := faults(t, Sink{}, test.config); !slices.Equal(wrong, test.wrong) {
			t.Errorf("%v: %v", test.config, wrong)
		}
	}
}

func TestTablesOfLists(t *testing.T) {
	users := ident.Name{"shop", "Us.ers"}
	for element, want := range map[string]bool{
		"Us.ers": true, `"Us.ers"`: true, `shop."Us.ers"`: true, `db.shop."Us.ers"`: true, `"shop"."Us.ers"`: true,
		"us.ers": false, `other."Us.ers"`: false, "shop.Us.ers": false, "": false, "shop": false,
	} {
		if listed([]string{"x", element}, users) != want {
			t.Errorf("%s: not %t", element, want)
		}
	}
	all, err := patterns([]string{"shop[.].*", "other"})
	if err != nil || !matches(all, users) || matches(all, ident.Name{"shops", "a"}) || matches(all, ident.Name{"other", "a"}) {
		t.Errorf("patterns match other tables: %v", err)
	}
	if err := checkTopics([]ident.Name{{"a", "t"}, {"b", "u"}, {"b", "t"}}); err == nil || !strings.Contains(err.Error(), "a.t, b.t") {
		t.Errorf("two tables of one topic: %v", err)
	}
	if name, err := tableOf("Kafka.${topic}_x", "Orders", true); err != nil || name.SQL() != `"kafka"."orders_x"` {
		t.Errorf("table %v, %v", name, err)
	}
}

func TestGuarantees(t *testing.T) {
	for _, test := range []struct {
		mode, query string
		want        bool
	}{
		{"bulk", "", false}, {"incrementing", "", true}, {" timestamp ", "", true}, {"timestamp", "SELECT 1", false}, {"timestamp+incrementing", "SELECT 1", true},
	} {
		if got := (Source{}).Guarantees(map[string]string{modeKey: test.mode, queryKey: test.query}); got.ExactlyOnce != test.want || got.Transactions {
			t.Errorf("%+v: %+v", test, got)
		}
	}
}

func TestNumericsByAnOlderWord(t *testing.T) {
	for want, config := range map[string]map[string]string{
		"none": {}, "precision_only": {precisionKey: "true"}, "best_fit": {precisionKey: "true", numericKey: "best_fit"},
	} {
		v, err := parseSource(config)
		if err != nil {
			t.Fatal(err)
		}
		if got := numericOf(v, config); got != want {
			t.Errorf("%v: %s", config, got)
		}
	}
}

func parseSource(config map[string]string) (configdef.Values, error) {
	config[urlKey], config[prefixKey], config[modeKey] = nowhere, "p", "bulk"
	return sourceDefinition.Parse(config)
}

func TestOffsetsThatUsersRemove(t *testing.T) {
	handled, err := Source{}.AlterOffsets(t.Context(), map[string]string{modeKey: "timestamp"}, []plugin.SourceOffset{
		{Partition: json.RawMessage(`{"protocol":"1","table":"public.t"}`)}, {Partition: json.RawMessage(`{"query":"query"}`), Offset: json.RawMessage(`{"timestamp":1}`)}})
	if err != nil || !handled {
		t.Errorf("%t, %v", handled, err)
	}
}

// TestADatabaseThatIsAway has the division of tasks be tried again, and not fail.
func TestADatabaseThatIsAway(t *testing.T) {
	config := map[string]string{}
	if _, err := parseSource(config); err != nil {
		t.Fatal(err)
	}
	connector, stop, err := kit.InProcess(Source{})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	var f *remote.Fault
	if _, err := connector.TaskConfigs(t.Context(), config, 1); !errors.As(err, &f) || !f.Retriable {
		t.Errorf("%v", err)
	}
}
