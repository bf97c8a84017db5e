//go:build e2e && linux

package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/libs/plugin/kit"
	"github.com/cauce-stream/cauce/tests/postgres"
	"github.com/cauce-stream/cauce/tests/retry"
)

func TestSourceConformance(t *testing.T) {
	b := setUp(t, "CREATE TABLE t (id serial PRIMARY KEY, at timestamp NOT NULL DEFAULT now(), name text); INSERT INTO t (name) SELECT 'x' || n FROM generate_series(1, 50) n")
	for _, mode := range []string{"bulk", "incrementing", "timestamp", "timestamp+incrementing"} {
		s := b.source(map[string]string{"mode": mode, "timestamp.column.name": "at", "batch.max.rows": "8"})
		for _, result := range kit.CheckSource(t.Context(), s.connector(), kit.Case{Config: s.config}) {
			if result.Fault != nil {
				t.Errorf("%s: %s: %v", mode, result.Name, result.Fault)
			}
			t.Log(mode, result.Name, result.Note)
		}
	}
}

// TestSourceSurvivesKills kills the server with SIGKILL while a writer adds rows and the source reads them: each row that was
// acknowledged is read once, in order, and offsets lead on.
func TestSourceSurvivesKills(t *testing.T) {
	b := setUp(t, "CREATE TABLE t (id bigserial PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp())")
	s := b.source(map[string]string{"mode": "timestamp+incrementing", "timestamp.column.name": "at", "batch.max.rows": "50", "connection.backoff.ms": "200"}).start(1)
	const rounds, each = 4, 400
	ids := []any{}
	faults := 0
	for round := range rounds {
		conn, err := pgconn.Connect(t.Context(), b.url)
		if err != nil {
			t.Fatal(err)
		}
		for range each {
			if _, err := conn.Exec(t.Context(), "INSERT INTO t DEFAULT VALUES").ReadAll(); err != nil {
				t.Fatal(err)
			}
		}
		s.records = nil
		for killed := false; len(s.records) < each; {
			if !killed && len(s.records) >= each/4*round/rounds {
				killed = true
				if err := server.Kill(); err != nil {
					t.Fatal(err)
				}
				// It finds that there is none, and then that there is one again.
				if err := s.poll(s.tasks[0], 300*time.Millisecond); err != nil {
					faults++
				}
				if err := server.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			s.mayPoll(s.tasks[0], time.Second)
		}
		ids = append(ids, field(s.records, "id")...)
		_ = conn.Close(t.Context()) // it was cut off
	}
	for i := 1; i < len(ids); i++ {
		if ids[i].(int64) <= ids[i-1].(int64) {
			t.Fatalf("row %d comes after row %d", ids[i], ids[i-1])
		}
	}
	if want := b.rows("SELECT count(*) FROM t"); want[0] != fmt.Sprint(len(ids)) || len(ids) != rounds*each {
		t.Errorf("%d rows, not %s", len(ids), want)
	}
	t.Logf("%d faults", faults)
}

// TestSourceRestartsAmidEqualTimes restarts the server within rows of one time.
func TestSourceRestartsAmidEqualTimes(t *testing.T) {
	for _, key := range []string{"PRIMARY KEY", ""} {
		b := setUp(t, "CREATE TABLE t (id int "+key+", at timestamp NOT NULL, filling text); INSERT INTO t SELECT n, '2024-01-01', repeat('x', 1000) FROM generate_series(1, 30000) n")
		s := b.source(map[string]string{"mode": "timestamp", "timestamp.column.name": "at", "batch.max.rows": "100"}).start(1)
		if err := s.poll(s.tasks[0], 10*time.Second); err != nil {
			t.Fatal(err)
		}
		if err := server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		deadline := time.Now().Add(20 * time.Second)
		seen := map[any]bool{}
		for _, id := range field(s.records, "id") {
			seen[id] = true
		}
		for s.records = nil; len(seen) < 30000 && time.Now().Before(deadline); s.records = nil {
			s.mayPoll(s.tasks[0], time.Second)
			for _, id := range field(s.records, "id") {
				if seen[id] && key != "" {
					t.Fatalf("row %v comes again", id)
				}
				seen[id] = true
			}
		}
		if len(seen) != 30000 {
			t.Errorf("%d rows", len(seen))
		}
		s.stop()
	}
}

func TestTablesAreSpreadAndFound(t *testing.T) {
	b := setUp(t, `CREATE SCHEMA shop; CREATE SCHEMA other; CREATE TABLE shop.a (id serial); CREATE TABLE shop."B" (id serial); CREATE TABLE shop.c (id serial);
		CREATE TABLE other.d (id serial); CREATE VIEW shop.v AS SELECT * FROM shop.a;
		INSERT INTO shop.a DEFAULT VALUES; INSERT INTO shop."B" DEFAULT VALUES; INSERT INTO shop.c DEFAULT VALUES; INSERT INTO other.d DEFAULT VALUES`)
	s := b.source(map[string]string{"mode": "incrementing", "schema.pattern": "sh%", "table.poll.interval.ms": "50"})
	s.start(2)
	if len(s.tasks) != 2 {
		t.Fatalf("%d tasks", len(s.tasks))
	}
	topics := func(records []data.Record) []string {
		var names []string
		for _, r := range records {
			names = append(names, r.Topic)
		}
		slices.Sort(names)
		return names
	}
	if got := topics(s.read(3)); !slices.Equal(got, []string{"db.B", "db.a", "db.c"}) {
		t.Errorf("topics %v", got)
	}
	s.stop()

	var changes atomic.Int32
	watching, stop := context.WithCancel(t.Context())
	watched := make(chan error, 1)
	go func() { watched <- s.connector().Watch(watching, "db", s.config, func() { changes.Add(1) }) }()
	await := func(n int32) {
		t.Helper()
		if err := retry.Until(t.Context(), 10*time.Second, func(context.Context) error {
			if got := changes.Load(); got < n {
				return fmt.Errorf("%d changes of %d", got, n)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	await(1)
	b.exec("CREATE TABLE shop.e (id serial); INSERT INTO shop.e DEFAULT VALUES")
	await(2)
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.exec("DROP TABLE shop.c")
	await(3)
	stop()
	if err := <-watched; err != nil {
		t.Error(err)
	}
	if got := topics(s.start(2).read(1)); got[0] != "db.e" {
		t.Errorf("topics %v", got)
	}

	for name, value := range map[string]string{"table.whitelist": `a,other.d,db.shop.c,"shop"."B"`, "table.blacklist": "shop.a,B,d", "table.types": "view", "table.include.list": `shop[.].,other.*`} {
		config := map[string]string{"connection.url": b.url, "topic.prefix": "x", "mode": "bulk", name: value}
		if name == "table.include.list" {
			config["table.exclude.list"] = ".*B"
		}
		configs, err := s.connector().TaskConfigs(t.Context(), config, 10)
		if err != nil {
			t.Fatal(err)
		}
		var tables []string
		for _, c := range configs {
			tables = append(tables, c["postgres.tables"])
		}
		want := map[string][]string{"table.whitelist": {`[["other","d"]]`, `[["shop","B"]]`, `[["shop","a"]]`}, "table.blacklist": {`[["shop","e"]]`}, "table.types": {`[["shop","v"]]`}, "table.include.list": {`[["other","d"]]`, `[["shop","a"]]`, `[["shop","e"]]`}}[name]
		if !slices.Equal(tables, want) {
			t.Errorf("%s: %v", name, tables)
		}
	}
	b.exec("CREATE TABLE other.a (id serial)")
	if _, err := s.connector().TaskConfigs(t.Context(), map[string]string{"connection.url": b.url, "topic.prefix": "x", "mode": "bulk"}, 1); err == nil || !strings.Contains(err.Error(), "other.a, shop.a") {
		t.Errorf("two tables for one topic: %v", err)
	}
}

func TestQueries(t *testing.T) {
	b := setUp(t, `CREATE TABLE t (id int, "At" timestamptz, n numeric(4, 1)); INSERT INTO t SELECT n, '2024-01-01'::timestamptz + interval '1 s' * n, n FROM generate_series(1, 9) n`)
	query := map[string]string{"mode": "timestamp+incrementing", "timestamp.column.name": "at", "incrementing.column.name": "ID",
		"numeric.mapping": "best_fit", "timestamp.initial": fmt.Sprint(time.Date(2024, 1, 1, 0, 0, 3, 0, time.UTC).UnixMilli()), "topic.prefix": "odd"}
	query["query.masked"] = "SELECT * FROM t WHERE id % 2 = 1 -- odd"
	s := b.source(query).start(3)
	if len(s.tasks) != 1 {
		t.Fatalf("%d tasks", len(s.tasks))
	}
	records := s.read(4)
	if got := field(records, "id"); !slices.Equal(got, []any{int32(3), int32(5), int32(7), int32(9)}) || records[0].Topic != "odd" || records[0].Value.Schema.Name != "" {
		t.Errorf("%v of %s", got, records[0].Topic)
	}
	if got := field(records, "n"); got[0] != 3.0 {
		t.Errorf("numbers %v", got)
	}
	if s.offsets[`{"query":"query"}`] == nil {
		t.Errorf("offsets %s", s.offsets)
	}
	now := b.source(map[string]string{"mode": "timestamp", "timestamp.column.name": "At", "query": "SELECT * FROM t;", "timestamp.initial": "-1", "poll.interval.ms": "50"}).start(1)
	now.mayPoll(now.tasks[0], 300*time.Millisecond)
	b.exec("INSERT INTO t VALUES (100, now()), (101, now() + interval '1 hour')")
	if got := field(now.read(1), "id"); got[0] != int32(100) {
		t.Errorf("from now on: %v", got)
	}
}

func TestTheDelayHoldsRowsBack(t *testing.T) {
	b := setUp(t, "CREATE TABLE t (id int PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp()); INSERT INTO t VALUES (1)")
	s := b.source(map[string]string{"mode": "timestamp", "timestamp.column.name": "at", "timestamp.delay.interval.ms": "1500"}).start(1)
	began := time.Now()
	s.read(1)
	if took := time.Since(began); took < 700*time.Millisecond {
		t.Errorf("a row is read after %v", took)
	}
}

// TestColumnsThatComeAndGo changes a table under a source that has read it.
func TestColumnsThatComeAndGo(t *testing.T) {
	b := setUp(t, "CREATE TABLE t (id serial, a int NOT NULL); INSERT INTO t (a) VALUES (1)")
	s := b.source(map[string]string{"mode": "incrementing"}).start(1)
	s.read(1)
	b.exec("ALTER TABLE t ADD b text; INSERT INTO t (a, b) VALUES (2, 'two')")
	if got := field(s.read(1), "b"); got[0] != "two" {
		t.Errorf("a column that came: %v", got)
	}
	b.exec("ALTER TABLE t ALTER a DROP NOT NULL; INSERT INTO t (b) VALUES ('three')")
	if got := field(s.read(1), "a"); got[0] != nil {
		t.Errorf("a column that may be null now: %v", got)
	}
	b.exec("ALTER TABLE t DROP a; ALTER TABLE t ALTER b TYPE bytea USING b::bytea; INSERT INTO t (b) VALUES ('four')")
	if r := s.read(1)[0]; len(r.Value.Schema.Fields) != 2 || r.Value.Schema.Fields[1].Schema.Type != data.TypeBytes {
		t.Errorf("a column of another type: %+v", r.Value.Schema)
	}
	b.exec("DROP TABLE t")
	var err error
	for err == nil {
		err = s.poll(s.tasks[0], 10*time.Second)
	}
	if !strings.Contains(err.Error(), "table public.t") {
		t.Errorf("a table that went: %v", err)
	}
	s.tasks[0].Stop(t.Context())
	s.tasks = nil
}

// TestRowsThatCannotBe has a value that Connect has none for: rows before it come, then the task says where it is.
func TestRowsThatCannotBe(t *testing.T) {
	b := setUp(t, "CREATE TABLE t (id serial, n numeric(5, 2)); INSERT INTO t (n) VALUES (1), (2), ('NaN')")
	s := b.source(map[string]string{"mode": "incrementing"}).start(1)
	var err error
	for err == nil {
		err = s.poll(s.tasks[0], 10*time.Second)
	}
	if !strings.Contains(err.Error(), `column n: NaN`) || !strings.Contains(err.Error(), `{"incrementing":3}`) || len(s.records) != 2 {
		t.Errorf("%d records, then: %v", len(s.records), err)
	}
	s.tasks = nil
}

func TestSourceValidation(t *testing.T) {
	b := setUp(t, "CREATE TABLE t (id int); CREATE TABLE u (id int); CREATE USER "+postgres.Guarded+" PASSWORD 'se&cret'")
	defer execute(t, server.URL(), "DROP USER "+postgres.Guarded)
	for _, test := range []struct {
		key, fault string
		config     map[string]string
	}{
		{"connection.url", "jdbc:postgresql", map[string]string{"connection.url": "jdbc:mysql://h/db"}},
		{"connection.url", "nobody", map[string]string{"connection.user": "nobody"}},
		{"connection.url", "does not exist", map[string]string{"connection.url": server.Database("nowhere")}},
		{"mode", "required", map[string]string{"mode": "<none>"}},
		{"mode", "one of", map[string]string{"mode": "cdc"}},
		{"topic.prefix", "empty", map[string]string{"topic.prefix": ""}},
		{"table.blacklist", "together", map[string]string{"table.whitelist": "a", "table.blacklist": "b"}},
		{"table.include.list", "together", map[string]string{"table.whitelist": "a", "table.include.list": "b"}},
		{"table.include.list", "parsing", map[string]string{"table.include.list": "a("}},
		{"table.exclude.list", "empty", map[string]string{"table.exclude.list": "a"}},
		{"timestamp.columns.mapping", "not supported", map[string]string{"timestamp.columns.mapping": "a:[b]"}},
		{"query.masked", "together", map[string]string{"query": "SELECT 1", "query.masked": "SELECT 1"}},
		{"query", "does not go", map[string]string{"table.whitelist": "a", "query": "SELECT 1"}},
		{"timestamp.column.name", "required", map[string]string{"mode": "timestamp"}},
		{"incrementing.column.name", "required", map[string]string{"mode": "incrementing", "query": "SELECT 1"}},
		{"db.timezone", "Nowhere", map[string]string{"db.timezone": "Nowhere/Else"}},
		{"table.types", "one of", map[string]string{"table.types": "SYNONYM"}},
		{"numeric.mapping", "one of", map[string]string{"numeric.mapping": "x"}},
		{"batch.max.rows", "at least", map[string]string{"batch.max.rows": "0"}},
		{"", "", nil},
		{"", "", map[string]string{"connection.user": postgres.Guarded, "connection.password": "se&cret"}},
		{"", "", map[string]string{"connection.url": strings.NewReplacer("postgres://postgres@", "jdbc:postgresql://").Replace(b.url) + "&user=" + postgres.Guarded + "&password=se%26cret"}},
		{"connection.url", "password authentication failed", map[string]string{"connection.user": postgres.Guarded, "connection.password": "wrong"}},
		{"connection.url", "password authentication failed", map[string]string{"connection.user": postgres.Guarded}},
		{"", "", map[string]string{"connection.url": "postgres://127.0.0.1:1/db"}}, // may come up later
	} {
		s := b.source(map[string]string{"mode": "bulk"})
		for name, value := range test.config {
			s.config[name] = value
			if value == "<none>" {
				delete(s.config, name)
			}
		}
		v, err := s.connector().Validate(t.Context(), s.config)
		if err != nil {
			t.Errorf("%v: %v", test.config, err)
			continue
		}
		found := test.key == ""
		for _, value := range v.Values {
			if text := strings.Join(value.Errors, " "); strings.Contains(text, "cret") || strings.Contains(text, "wrong") && test.config["connection.password"] == "wrong" {
				t.Errorf("%v: a password is shown: %s", test.config, text)
			}
			if len(value.Errors) > 0 && value.Name == test.key && strings.Contains(strings.Join(value.Errors, " "), test.fault) {
				found = true
			} else if len(value.Errors) > 0 {
				t.Errorf("%v: %s: %v", test.config, value.Name, value.Errors)
			}
		}
		if !found {
			t.Errorf("%v: nothing wrong with %s", test.config, test.key)
		}
	}
	v, err := b.source(nil).connector().Validate(t.Context(), map[string]string{"connection.url": b.url, "mode": "incrementing", "topic.prefix": "x"})
	if err != nil {
		t.Fatal(err)
	}
	of := func(name string) configdef.Value {
		return v.Values[slices.IndexFunc(v.Values, func(v configdef.Value) bool { return v.Name == name })]
	}
	if got := of("table.whitelist").Recommended; !slices.Equal(got, []string{"public.t", "public.u"}) {
		t.Errorf("tables to read: %v", got)
	}
	if of("timestamp.column.name").Visible || !of("incrementing.column.name").Visible || !v.Guarantees.ExactlyOnce {
		t.Errorf("mode incrementing: %+v", v)
	}
}

// TestTablesThatCannotBeRead has tasks fail for what their tables lack.
func TestTablesThatCannotBeRead(t *testing.T) {
	b := setUp(t, `CREATE TABLE t (id serial, maybe int, name text NOT NULL, "X" int, x int, day date NOT NULL, at timestamp)`)
	for fault, config := range map[string]map[string]string{
		"there is no column nil":            {"mode": "incrementing", "incrementing.column.name": "nil"},
		"column maybe may be null":          {"mode": "incrementing", "incrementing.column.name": "maybe"},
		"column name is no integer":         {"mode": "incrementing", "incrementing.column.name": "name"},
		"column day is neither":             {"mode": "timestamp", "timestamp.column.name": "day"},
		"all of at may be null":             {"mode": "timestamp", "timestamp.column.name": "at"},
		"no column none":                    {"mode": "timestamp", "timestamp.column.name": "none,at"},
		"syntax error":                      {"mode": "bulk", "query.suffix": "WHERE ORDER"},
		"it has no serial or identity":      {"mode": "incrementing", "table.types": "VIEW"},
		`relation "nowhere" does not exist`: {"mode": "bulk", "query": "SELECT * FROM nowhere"},
	} {
		if config["table.types"] != "" {
			b.exec("CREATE VIEW v AS SELECT * FROM t")
		}
		s := b.source(config).start(1)
		var err error
		for err == nil {
			err = s.poll(s.tasks[0], 10*time.Second)
		}
		if !strings.Contains(err.Error(), fault) {
			t.Errorf("%v: %v", config, err)
		}
		s.tasks = nil
	}
	// Where nulls are allowed, rows that have them are not read.
	b.exec("INSERT INTO t (maybe, name, day) VALUES (NULL, '', now()), (1, '', now())")
	s := b.source(map[string]string{"mode": "incrementing", "incrementing.column.name": "maybe", "validate.non.null": "false"}).start(1)
	s.read(1)
}

func TestOffsetsThatUsersSet(t *testing.T) {
	c := setUp(t, "").source(nil).connector()
	for _, test := range []struct{ mode, partition, offset, fault string }{
		{"incrementing", `{"protocol":"1","table":"public.t"}`, `{"incrementing":5}`, ""},
		{"incrementing", `{"protocol":"1","table":"public.t"}`, "", ""},
		{"timestamp", `{"query":"query"}`, `{"timestamp":5,"timestamp_nanos":5000000}`, ""},
		{"timestamp", `{"table":"t"}`, `{"timestamp":5,"timestamp_nanos":5000000,"key":"[\"1\"]"}`, ""},
		{"incrementing", `{"file":"t"}`, `{"incrementing":5}`, "partition"},
		{"incrementing", `{"table":"t"}`, `{"timestamp":5}`, "incrementing"},
		{"incrementing", `{"table":"t"}`, `{"incrementing":"5"}`, "integers"},
		{"timestamp+incrementing", `{"table":"t"}`, `{"incrementing":5}`, "wants timestamp"},
		{"bulk", `{"table":"t"}`, `{"incrementing":5}`, "no offsets"},
	} {
		o := plugin.SourceOffset{Partition: json.RawMessage(test.partition)}
		if test.offset != "" {
			o.Offset = json.RawMessage(test.offset)
		}
		handled, err := c.AlterSourceOffsets(t.Context(), map[string]string{"mode": test.mode}, []plugin.SourceOffset{o})
		if (err == nil) != (test.fault == "") || handled != (err == nil) || err != nil && !strings.Contains(err.Error(), test.fault) {
			t.Errorf("%+v: %t, %v", test, handled, err)
		}
	}
}

// TestTypes reads a row of every type, as the schema of the table has it.
func TestTypes(t *testing.T) {
	b := setUp(t, `CREATE TYPE mood AS ENUM ('sad', 'happy'); CREATE DOMAIN positive AS int CHECK (VALUE > 0);
		CREATE TABLE t (a smallint, b int, c bigint, d numeric(10, 2), e numeric, f real, g float8, h bool, i text, j varchar(5), k char(3), l bytea, m date, n time, o timestamp, p timestamptz,
			q uuid, r json, s jsonb, u mood, v int[], w text[], x inet, y interval, z positive, aa xml, bb bit(1), cc bit(4), dd money, ee timetz, ff oid, gg int4range);
		INSERT INTO t VALUES (1, 2, 3, 4.5, 0.1, 1.5, 2.5, true, 'text', 'vc', 'c', '\x0102', '2024-02-03', '04:05:06.789', '2024-02-03 04:05:06.789', '2024-02-03 04:05:06.789+02',
			'a8098c1a-f86e-11da-bd1a-00112444be1e', '{"a": 1}', '{"a": 1}', 'happy', '{1,NULL}', '{a,"b c"}', '10.0.0.1/8', '1 day', 7, '<a/>', B'1', B'1010', 1, '04:05:06+01', 9, '[1,5)')`)
	s := b.source(map[string]string{"mode": "bulk", "poll.interval.ms": "60000", "db.timezone": "Europe/Madrid"}).start(1)
	row := s.read(1)[0].Value.V.(*data.Struct)
	want := map[string]string{
		"a": "INT16 1", "b": "INT32 2", "c": "INT64 3", "d": "Decimal {450 2}", "e": "", "f": "FLOAT32 1.5", "g": "FLOAT64 2.5", "h": "BOOLEAN true", "i": "STRING text", "j": "STRING vc",
		"k": "STRING c  ", "l": "BYTES [1 2]", "m": "Date 2024-02-03 00:00:00 +0000 UTC", "n": "Time 1970-01-01 04:05:06.789 +0000 UTC", "o": "Timestamp 2024-02-03 03:05:06.789 +0000 UTC",
		"p": "Timestamp 2024-02-03 02:05:06.789 +0000 UTC", "q": "STRING a8098c1a-f86e-11da-bd1a-00112444be1e", "r": `STRING {"a": 1}`, "s": `STRING {"a": 1}`, "u": "STRING happy",
		"v": "STRING {1,NULL}", "w": `STRING {a,"b c"}`, "x": "STRING 10.0.0.1/8", "y": "STRING 1 day", "z": "INT32 7", "aa": "STRING <a/>", "bb": "BOOLEAN true", "cc": "STRING 1010",
		"dd": "STRING $1.00", "ee": "Time 1970-01-01 03:05:06 +0000 UTC", "ff": "INT64 9", "gg": "STRING [1,5)",
	}
	for i, f := range row.Schema.Fields {
		name := f.Schema.Type.String()
		if f.Schema.Logical() {
			name = f.Schema.Name[strings.LastIndex(f.Schema.Name, ".")+1:]
		}
		if got := fmt.Sprintf("%s %v", name, row.Values[i]); want[f.Name] != "" && got != want[f.Name] || !f.Schema.Optional {
			t.Errorf("%s: %s, not %s", f.Name, got, want[f.Name])
		}
	}
}
