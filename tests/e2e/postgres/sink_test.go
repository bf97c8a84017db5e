//go:build e2e && linux

package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/libs/plugin/kit"
	"github.com/cauce-stream/cauce/libs/plugin/remote"
)

// sink is a connector with one task.
type sink struct {
	*bench
	config  map[string]string
	reports bool
	task    *remote.SinkTask
	errant  []remote.Errant
	offset  int64
	faults  int
}

func (b *bench) sink(config map[string]string) *sink {
	s := &sink{bench: b, config: map[string]string{"connection.url": "jdbc:postgresql" + strings.TrimPrefix(b.url, "postgres") + "&user=postgres", "retry.backoff.ms": "100", "max.retries": "10000"}}
	s.config["connection.url"] = strings.Replace(s.config["connection.url"], "postgres@", "", 1)
	for name, value := range config {
		s.config[name] = value
	}
	b.Cleanup(s.stop)
	return s
}

func (s *sink) connector() kit.Connector {
	s.Helper()
	c, err := s.host.Connector(s.Context(), "JdbcSinkConnector")
	if err != nil {
		s.Fatal(err)
	}
	return c
}

func (s *sink) start() *sink {
	s.Helper()
	var err error
	if s.task, err = s.connector().StartSink(s.Context(), remote.Task{Connector: "db", Config: s.config, Reports: s.reports}); err != nil {
		s.Fatal(err)
	}
	return s
}

func (s *sink) stop() {
	if s.task == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := s.task.Stop(ctx); err != nil {
		s.Error(err)
	}
	s.task = nil
}

// record returns a record of the topic t with the next offset.
func (s *sink) record(key, value data.Value) plugin.SinkRecord {
	r := data.NewRecord("t", key, value)
	r.Partition, r.Offset = 3, s.offset
	s.offset++
	return plugin.SinkRecord{Record: r, Original: plugin.TopicPartition{Topic: "t", Partition: 3}}
}

// try puts records until they are taken, or fails.
func (s *sink) try(records ...plugin.SinkRecord) error {
	for {
		wishes, err := s.task.Put(s.Context(), records)
		s.errant = append(s.errant, wishes.Errant...)
		var f *remote.Fault
		if errors.As(err, &f) && f.Retriable {
			s.faults++
			continue
		}
		return err
	}
}

func (s *sink) put(records ...plugin.SinkRecord) {
	s.Helper()
	if err := s.try(records...); err != nil {
		s.Fatal(err)
	}
}

func (s *sink) want(sql string, rows ...string) {
	s.Helper()
	if got := s.rows(sql); !slices.Equal(got, rows) {
		s.Errorf("%s: %q, not %q", sql, got, rows)
	}
}

var (
	epoch        = time.UnixMilli(1_700_000_000_000).UTC()
	textSchema   = &data.Schema{Type: data.TypeString}
	maybeText    = &data.Schema{Type: data.TypeString, Optional: true}
	numberSchema = &data.Schema{Type: data.TypeInt32}
	idSchema     = &data.Schema{Type: data.TypeStruct, Fields: []data.Field{{Name: "id", Schema: numberSchema}}}
	nameSchema   = &data.Schema{Type: data.TypeStruct, Fields: []data.Field{{Name: "name", Schema: maybeText}}}
)

func of(s *data.Schema, values ...any) data.Value {
	return data.Value{Schema: s, V: &data.Struct{Schema: s, Values: values}}
}

func id(n int) data.Value { return of(idSchema, int32(n)) }

func TestSinkConformance(t *testing.T) {
	b := setUp(t, "")
	records := []data.Record{}
	for i := range 30 {
		r := data.NewRecord("t", id(i), of(nameSchema, "x"))
		r.Offset, r.Partition = int64(i), 0
		records = append(records, r)
	}
	for _, mode := range []string{"insert", "upsert", "update"} {
		s := b.sink(map[string]string{"insert.mode": mode, "pk.mode": "record_key", "auto.create": "true", "table.name.format": mode + "_${topic}"})
		if mode == "insert" {
			s.config["pk.mode"] = "none" // the kit puts all twice
		}
		for _, result := range kit.CheckSink(t.Context(), s.connector(), kit.Case{Config: s.config, Records: records}) {
			if result.Fault != nil {
				t.Errorf("%s: %s: %v", mode, result.Name, result.Fault)
			}
			t.Log(mode, result.Name, result.Note)
		}
	}
	b.sink(nil).want("SELECT count(*) FROM insert_t", "120")
	b.sink(nil).want("SELECT count(*) FROM upsert_t", "30")
}

func TestUpserts(t *testing.T) {
	s := setUp(t, "").sink(map[string]string{"insert.mode": "upsert", "pk.mode": "record_key", "auto.create": "true", "delete.enabled": "true"}).start()
	s.put(s.record(id(9), data.Value{}), s.record(id(9), data.Value{Schema: nameSchema})) // of a table that is not there
	batch := []plugin.SinkRecord{
		s.record(id(1), of(nameSchema, "one")), s.record(id(2), of(nameSchema, "two")), s.record(id(1), of(nameSchema, "one again")),
		s.record(id(2), data.Value{Schema: maybeText}), s.record(id(3), data.Value{Schema: nameSchema}), s.record(id(3), of(nameSchema, "three")), s.record(id(4), of(nameSchema, nil)),
		s.record(id(5), of(nameSchema, "x")), s.record(id(5), data.Value{}), s.record(id(5), of(nameSchema, "five")),
	}
	for range 2 { // it is put again after a failure
		s.put(batch...)
		s.want("SELECT * FROM t ORDER BY id", "1|one again", "3|three", "4|null", "5|five")
	}
}

func TestInsertAndUpdate(t *testing.T) {
	b := setUp(t, `CREATE SCHEMA shop; CREATE TABLE shop.t (id int PRIMARY KEY, name text, other text DEFAULT 'kept'); INSERT INTO shop.t (id) VALUES (1), (2)`)
	s := b.sink(map[string]string{"insert.mode": "update", "pk.mode": "record_key", "table.name.format": "shop.${topic}"}).start()
	s.put(s.record(id(1), of(nameSchema, "one")), s.record(id(7), of(nameSchema, "nobody")))
	s.want("SELECT * FROM shop.t ORDER BY id", "1|one|kept", "2|null|kept")
	s.stop()
	s = b.sink(map[string]string{"pk.mode": "kafka", "auto.create": "true", "table.name.format": "Log"}).start()
	first := s.record(data.Value{}, of(nameSchema, "x"))
	s.put(first, s.record(data.Value{}, of(nameSchema, "y")))
	s.want(`SELECT * FROM "Log" ORDER BY 3`, "t|3|0|x", "t|3|1|y")
	if err := s.try(first); err == nil || !strings.Contains(err.Error(), "record t-3@0") || !strings.Contains(err.Error(), "duplicate key") {
		t.Errorf("a row that is there: %v", err)
	}
	s.task = nil
	lower := b.sink(map[string]string{"table.name.format": "LOG", "quote.sql.identifiers": "never", "auto.create": "true", "pk.mode": "record_value", "pk.fields": "ID"}).start()
	lower.put(lower.record(data.Value{}, of(&data.Schema{Type: data.TypeStruct, Fields: []data.Field{{Name: "ID", Schema: numberSchema}}}, int32(5))))
	lower.want("SELECT id FROM log", "5")
}

// TestColumnsThatCome has records of schemas that grow, in one batch and in two tasks at once.
func TestColumnsThatCome(t *testing.T) {
	b := setUp(t, "")
	wider := &data.Schema{Type: data.TypeStruct, Fields: []data.Field{{Name: "name", Schema: maybeText}, {Name: "age", Schema: &data.Schema{Type: data.TypeInt32, Default: int32(18)}}}}
	strict := &data.Schema{Type: data.TypeStruct, Fields: []data.Field{{Name: "must", Schema: textSchema}}}
	config := map[string]string{"insert.mode": "upsert", "pk.mode": "record_key", "auto.create": "true", "auto.evolve": "true"}
	var work sync.WaitGroup
	for task := range 2 {
		s := b.sink(config)
		s.reports = true
		s.start()
		work.Go(func() {
			for i := range 20 {
				n := task*1000 + i*10
				if err := s.try(s.record(id(n), of(nameSchema, "narrow")), s.record(id(n+1), of(wider, "wide", int32(7))), s.record(id(n+2), of(nameSchema, "narrow again")),
					s.record(id(n+3), of(strict, "x"))); err != nil {
					t.Error(err)
				}
			}
			if len(s.errant) != 20 || !strings.Contains(s.errant[0].Fault, "must") {
				t.Errorf("records that cannot be written: %v", s.errant)
			}
		})
	}
	work.Wait()
	b.sink(nil).want("SELECT count(*), count(age), sum(age) FROM t", fmt.Sprintf("120|120|%d", 40*7+80*18))

	s := b.sink(map[string]string{"table.name.format": "nowhere"}).start()
	if err := s.try(s.record(id(1), of(nameSchema, "x"))); err == nil || !strings.Contains(err.Error(), "nowhere is missing, and auto.create is false") {
		t.Errorf("a table that is missing: %v", err)
	}
	s.task = nil
	s = b.sink(nil).start()
	if err := s.try(s.record(id(1), of(strict, "x"))); err == nil || !strings.Contains(err.Error(), "lacks the columns must") {
		t.Errorf("a column that is missing: %v", err)
	}
	s.task = nil
}

// TestPoison has records that cannot be written among those that can: all of these are written, and each of those is reported.
func TestPoison(t *testing.T) {
	const setup = `CREATE TABLE t (id int PRIMARY KEY, name varchar(5) CHECK (name <> 'bad'), parent int REFERENCES t (id) DEFERRABLE INITIALLY DEFERRED);
		CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.name = 'nope' THEN RAISE EXCEPTION 'refused'; END IF; RETURN NEW; END $$;
		CREATE TRIGGER refuse BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION refuse()`
	withParent := &data.Schema{Type: data.TypeStruct, Fields: []data.Field{{Name: "name", Schema: maybeText}, {Name: "parent", Schema: &data.Schema{Type: data.TypeInt32, Optional: true}}}}
	b := setUp(t, setup)
	s := b.sink(map[string]string{"pk.mode": "record_key", "batch.size": "7"})
	s.reports = true
	s.start()
	var batch []plugin.SinkRecord
	var want, faults []string
	for i := range 60 {
		value := of(withParent, "ok", nil)
		fault := map[int]string{0: "value too long", 5: "violates check", 6: "refused", 7: "foreign key", 8: "no schema", 9: "null", 20: "duplicate", 59: "invalid byte"}[i]
		key := id(i)
		switch fault {
		case "value too long":
			value = of(withParent, "too long", nil)
		case "violates check":
			value = of(withParent, "bad", nil)
		case "refused":
			value = of(withParent, "nope", nil)
		case "foreign key":
			value = of(withParent, "ok", int32(1000))
		case "no schema":
			value = data.Value{V: "text"}
		case "null":
			value = data.Value{Schema: withParent}
		case "duplicate":
			key = id(19)
		case "invalid byte":
			value = of(withParent, "a\x00b", nil)
		default:
			want = append(want, fmt.Sprint(i))
		}
		if fault != "" {
			faults = append(faults, fault)
		}
		batch = append(batch, s.record(key, value))
	}
	s.put(batch...)
	s.want("SELECT id FROM t ORDER BY id", want...)
	slices.SortFunc(s.errant, func(a, b remote.Errant) int { return int(a.Offset - b.Offset) })
	if len(s.errant) != len(faults) {
		t.Errorf("%d records are reported, not %d: %v", len(s.errant), len(faults), s.errant)
	}
	for i, e := range s.errant {
		if i < len(faults) && !strings.Contains(e.Fault, faults[i]) {
			t.Errorf("record %d: %s, not %s", e.Offset, e.Fault, faults[i])
		}
	}
	// Without a dead letter queue the task fails, and nothing is written.
	strict := setUp(t, setup).sink(map[string]string{"pk.mode": "record_key"}).start()
	if err := strict.try(batch...); err == nil || !strings.Contains(err.Error(), "record t-3@") {
		t.Errorf("without reports: %v", err)
	}
	strict.task = nil
	strict.want("SELECT count(*) FROM t", "0")
}

// TestSinkSurvivesKills kills the server with SIGKILL while records are put, and a second task does the same to the same rows.
func TestSinkSurvivesKills(t *testing.T) {
	b := setUp(t, "")
	const batches, each, kills = 60, 200, 4
	var work sync.WaitGroup
	put := make(chan struct{}, 2*batches)
	sinks := make([]*sink, 2)
	for i := range sinks {
		s := b.sink(map[string]string{"insert.mode": "upsert", "pk.mode": "record_key", "auto.create": "true"}).start()
		sinks[i] = s
		work.Go(func() {
			for batch := range batches {
				var records []plugin.SinkRecord
				for n := range each {
					key := batch*each + n
					if i == 1 {
						key = batch*each + each - 1 - n // the other way round, for deadlocks
					}
					records = append(records, s.record(id(key), of(nameSchema, fmt.Sprint(key))))
				}
				if err := s.try(records...); err != nil {
					t.Error(err)
					return
				}
				put <- struct{}{}
			}
		})
	}
	go func() { work.Wait(); close(put) }()
	done := 0
	for range put {
		if done++; done%(2*batches/(kills+1)) == 0 && done < 2*batches {
			if err := errors.Join(server.Kill(), server.Start(t.Context())); err != nil {
				t.Fatal(err)
			}
		}
	}
	sinks[0].want("SELECT count(*), count(*) FILTER (WHERE name = id::text) FROM t", fmt.Sprintf("%d|%d", batches*each, batches*each))
	t.Logf("%d kills, %d and %d faults", kills, sinks[0].faults, sinks[1].faults)
	if sinks[0].faults+sinks[1].faults == 0 {
		t.Error("nothing has failed")
	}
}

func TestRetriesEnd(t *testing.T) {
	b := setUp(t, "")
	s := b.sink(map[string]string{"max.retries": "3", "retry.backoff.ms": "10", "connection.url": "postgres://postgres@127.0.0.1:1/none"}).start()
	if err := s.try(s.record(id(1), of(nameSchema, "x"))); err == nil || s.faults != 3 {
		t.Errorf("%d faults, then %v", s.faults, err)
	}
	s.task = nil
}

// TestRoundTrip takes a row of many types from one table to another.
func TestRoundTrip(t *testing.T) {
	b := setUp(t, `CREATE TYPE mood AS ENUM ('sad', 'happy');
		CREATE TABLE t (a smallint, b int, c bigint, d numeric(10, 2), f real, g float8, h bool, i text, l bytea, m date, n time, o timestamp, p timestamptz, q uuid, r jsonb, u mood, v int[], w text[], x inet, e numeric);
		INSERT INTO t DEFAULT VALUES; INSERT INTO t VALUES (1, 2, 3, 4.5, 1.5, 2.5, true, 'text', '\x0102', '2024-02-03', '04:05:06.789', '2024-02-03 04:05:06.789', '2024-02-03 04:05:06.789+02',
			'a8098c1a-f86e-11da-bd1a-00112444be1e', '{"a": 1}', 'happy', '{1,NULL}', '{a,"b c"}', '10.0.0.1/8', 12.25),
			(-1, 0, 0, 0, 'NaN', '-Infinity', false, '', '', 'infinity', '00:00', 'infinity', '-infinity', NULL, NULL, NULL, NULL, NULL, NULL, NULL),
			(0, 0, 0, 0, 0, 0, false, '', '', '0044-03-15 BC', '00:00', '0044-03-15 BC', '12024-01-02 03:04', NULL, NULL, NULL, NULL, NULL, NULL, NULL);
		CREATE TABLE copy (LIKE t)`)
	for _, zone := range []string{"UTC", "America/New_York"} {
		b.exec("TRUNCATE copy")
		source := b.source(map[string]string{"mode": "bulk", "table.whitelist": "t", "poll.interval.ms": "100000", "db.timezone": zone}).start(1)
		s := b.sink(map[string]string{"table.name.format": "copy", "db.timezone": zone}).start()
		for _, r := range source.read(4) {
			s.put(s.record(r.Key, r.Value))
		}
		s.want("(TABLE t EXCEPT ALL TABLE copy) UNION ALL (TABLE copy EXCEPT ALL TABLE t)")
		source.stop()
		s.stop()
	}
	decimal := data.Decimal{Unscaled: big.NewInt(-1250), Scale: 2}
	made := &data.Schema{Type: data.TypeStruct, Fields: []data.Field{{Name: "d", Schema: data.DecimalSchema(2)}, {Name: "at", Schema: data.TimestampSchema()},
		{Name: "list", Schema: &data.Schema{Type: data.TypeArray, Value: maybeText}}, {Name: "raw", Schema: &data.Schema{Type: data.TypeBytes, Default: []byte{7}}}}}
	s := b.sink(map[string]string{"table.name.format": "made", "auto.create": "true"}).start()
	s.put(s.record(data.Value{}, of(made, decimal, time.UnixMilli(1_700_000_000_123), []any{`x"y`, nil, "{}"}, nil)))
	s.want("SELECT d, at, list[1], list[2], list[3], raw FROM made", `-12.50|2023-11-14 22:13:20.123|x"y|null|{}|\x07`)
}

func TestSinkValidation(t *testing.T) {
	b := setUp(t, "")
	for _, test := range []struct {
		key, fault string
		config     map[string]string
	}{
		{"pk.mode", "wants a primary key", map[string]string{"insert.mode": "upsert"}},
		{"delete.enabled", "record_key", map[string]string{"delete.enabled": "true"}},
		{"pk.fields", "three", map[string]string{"pk.mode": "kafka", "pk.fields": "a,b"}},
		{"insert.mode", "one of", map[string]string{"insert.mode": "merge"}},
		{"table.name.format", "parts", map[string]string{"table.name.format": "a.b.c.${topic}"}},
		{"connection.url", "wanted", map[string]string{"connection.url": "jdbc:oracle:thin:@h"}},
		{"connection.url", "nobody", map[string]string{"connection.user": "nobody"}},
		{"", "", nil},
		{"", "", map[string]string{"insert.mode": "UPSERT", "pk.mode": "RECORD_KEY", "delete.enabled": "true"}},
	} {
		s := b.sink(test.config)
		v, err := s.connector().Validate(t.Context(), s.config)
		if err != nil {
			t.Errorf("%v: %v", test.config, err)
			continue
		}
		found := test.key == ""
		for _, value := range v.Values {
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
}
