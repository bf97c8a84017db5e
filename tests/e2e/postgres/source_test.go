//go:build e2e && linux

package postgres

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin/data"
)

func ints(from, to int) []any {
	var values []any
	for i := from; i <= to; i++ {
		values = append(values, int32(i))
	}
	return values
}

func TestIncrementing(t *testing.T) {
	b := setUp(t, "CREATE TABLE users (id serial PRIMARY KEY, name text); INSERT INTO users (name) SELECT 'user ' || n FROM generate_series(1, 25) n")
	s := b.source(map[string]string{"mode": "incrementing", "batch.max.rows": "10"}).start(1)
	records := s.read(25)
	if got := field(records, "id"); !slices.Equal(got, ints(1, 25)) {
		t.Errorf("ids %v", got)
	}
	if r := records[0]; r.Topic != "db.users" || r.Value.Schema.Name != "users" || r.Key.V != nil {
		t.Errorf("record %+v", r)
	}
	if got := string(s.offsets[`{"protocol":"1","table":"public.users"}`]); got != `{"incrementing":25}` {
		t.Errorf("offsets %s", s.offsets)
	}
	b.exec("INSERT INTO users (name) VALUES ('late')")
	s.read(1)
	s.stop()
	b.exec("INSERT INTO users (name) VALUES ('later')")
	if got := field(s.start(1).read(1), "name"); got[0] != "later" {
		t.Errorf("after a new start: %v", got)
	}
}

func TestBulk(t *testing.T) {
	b := setUp(t, "CREATE TABLE a (n int); INSERT INTO a VALUES (1), (2)")
	s := b.source(map[string]string{"mode": "bulk", "poll.interval.ms": "2000"}).start(1)
	s.read(2)
	if len(s.offsets) != 0 {
		t.Errorf("offsets %s", s.offsets)
	}
	b.exec("INSERT INTO a VALUES (3)")
	if got := field(s.read(3), "n"); !slices.Equal(got, ints(1, 3)) {
		t.Errorf("again: %v", got)
	}
}

// TestEqualTimes has more rows of one time than a batch, stops after each batch, and starts from the stored offset.
func TestEqualTimes(t *testing.T) {
	for _, test := range []struct{ mode, table string }{
		{"timestamp", "CREATE TABLE t (id int PRIMARY KEY, at timestamptz NOT NULL)"},
		{"timestamp", `CREATE TABLE t (a text COLLATE "C", id int, at timestamp NOT NULL, PRIMARY KEY (id, a))`},
		{"timestamp+incrementing", "CREATE TABLE t (id serial, at timestamp NOT NULL)"},
		{"timestamp", "CREATE TABLE t (id int, at timestamp NOT NULL)"}, // no key: rows of one time are not parted
	} {
		t.Run(test.mode, func(t *testing.T) {
			b := setUp(t, test.table)
			more := ""
			if strings.Contains(test.table, "a text") {
				b.exec("ALTER TABLE t ALTER a SET DEFAULT 'x'")
			}
			b.exec("INSERT INTO t (id, at)" + more + " SELECT n, '2024-05-06 07:08:09.123456'::timestamp + interval '1 microsecond' * (n / 17) FROM generate_series(1, 100) n")
			s := b.source(map[string]string{"mode": test.mode, "timestamp.column.name": "at", "incrementing.column.name": "id", "batch.max.rows": "7"})
			var all []data.Record
			for len(all) < 100 {
				s.start(1)
				s.records = nil
				if err := s.poll(s.tasks[0], 10*time.Second); err != nil {
					t.Fatal(err)
				}
				all = append(all, s.records...)
				s.stop()
			}
			if got := field(all, "id"); !slices.Equal(got, ints(1, 100)) {
				t.Errorf("ids %v", got)
			}
			// A row that comes late, with a time that was read, is read where it can be told apart.
			if test.mode == "timestamp+incrementing" || strings.Contains(test.table, "PRIMARY KEY") {
				s.start(1)
				b.exec("INSERT INTO t (id, at) SELECT 101, max(at) FROM t")
				s.read(1)
				s.stop()
			}
			s.start(1)
			b.exec("UPDATE t SET at = now() WHERE id = 5")
			if got := field(s.read(1), "id"); got[0] != int32(5) {
				t.Errorf("after a change: %v", got)
			}
		})
	}
}

// TestOffsetsOfJDBC starts from what the JVM's connector stores.
func TestOffsetsOfJDBC(t *testing.T) {
	b := setUp(t, `CREATE TABLE t (id int PRIMARY KEY, at timestamp NOT NULL);
		INSERT INTO t SELECT n, '2024-01-01 00:00:00.000001'::timestamp + interval '1 second' * n FROM generate_series(0, 9) n`)
	at := time.Date(2024, 1, 1, 0, 0, 4, 1000, time.UTC)
	for partition, mode := range map[string]string{
		`{"protocol":"1","table":"public.t"}`:                         "timestamp",
		fmt.Sprintf(`{"protocol":"1","table":"%s.public.t"}`, b.name): "timestamp+incrementing",
		`{"table":"t"}`: "incrementing",
	} {
		s := b.source(map[string]string{"mode": mode, "timestamp.column.name": "at", "incrementing.column.name": "id"})
		offset := map[string]string{
			"timestamp":              fmt.Sprintf(`{"timestamp":%d,"timestamp_nanos":1000}`, at.UnixMilli()),
			"timestamp+incrementing": fmt.Sprintf(`{"timestamp_nanos":1000,"incrementing":4,"timestamp":%d}`, at.UnixMilli()),
			"incrementing":           `{"incrementing":4}`,
		}[mode]
		s.offsets[partition] = json.RawMessage(offset)
		if got := field(s.start(1).read(5), "id"); !slices.Equal(got, ints(5, 9)) {
			t.Errorf("%s: %v", mode, got)
		}
		s.stop()
	}
}
