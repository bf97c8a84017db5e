//go:build e2e && linux

package postgres

import (
	"fmt"
	"testing"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/libs/plugin/host"
	"github.com/cauce-stream/cauce/libs/plugin/remote"
)

// benchRows is how many rows of about 100 bytes each benchmark moves.
const benchRows = 200_000

// newConnector starts the plugin and returns a connector of it, with the URL of a new database.
func newConnector(b *testing.B, class, sql string) (*host.Connector, string) {
	b.Helper()
	name := fmt.Sprintf("bench_%d_%s", b.N, class[len(class)-10:])
	execute(b, server.URL(), fmt.Sprintf(`DROP DATABASE IF EXISTS %q`, name))
	execute(b, server.URL(), fmt.Sprintf(`CREATE DATABASE %q`, name))
	url := server.Database(name)
	execute(b, url, sql)
	h, err := host.New(host.Config{Path: []string{"../../../bin/plugins/cauce-connectors"}}, host.Deps{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := h.Close(); err != nil {
			b.Error(err)
		}
	})
	c, err := h.Connector(b.Context(), class)
	if err != nil {
		b.Fatal(err)
	}
	return c, url
}

func BenchmarkSource(b *testing.B) {
	c, url := newConnector(b, "postgres-source", fmt.Sprintf(`CREATE TABLE t (id bigserial PRIMARY KEY, at timestamptz NOT NULL, name text, price numeric(10, 2), n int);
		INSERT INTO t (at, name, price, n) SELECT '2024-01-01'::timestamptz + interval '1 ms' * (i / 10), repeat('x', 60), i / 100.0, i FROM generate_series(1, %d) i;
		CREATE INDEX ON t (at, id); ANALYZE t`, benchRows))
	for _, mode := range []string{"incrementing", "timestamp", "timestamp+incrementing"} {
		b.Run(mode, func(b *testing.B) {
			for range b.N {
				configs, err := c.TaskConfigs(b.Context(), map[string]string{"connection.url": url, "mode": mode, "timestamp.column.name": "at", "topic.prefix": "x"}, 1)
				if err != nil {
					b.Fatal(err)
				}
				var none source
				task, err := c.StartSource(b.Context(), remote.Task{Connector: "b", Config: configs[0], ReadOffsets: none.stored})
				if err != nil {
					b.Fatal(err)
				}
				for rows := 0; rows < benchRows; {
					batch, err := task.Poll(b.Context())
					if err != nil {
						b.Fatal(err)
					}
					rows += len(batch.Records)
				}
				if err := task.Stop(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(benchRows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

func BenchmarkSink(b *testing.B) {
	schema := &data.Schema{Type: data.TypeStruct, Fields: []data.Field{{Name: "at", Schema: data.TimestampSchema()}, {Name: "name", Schema: textSchema},
		{Name: "price", Schema: &data.Schema{Type: data.TypeFloat64}}, {Name: "n", Schema: numberSchema}}}
	c, url := newConnector(b, "postgres-sink", "")
	for _, mode := range []string{"insert", "upsert"} {
		b.Run(mode, func(b *testing.B) {
			for range b.N {
				execute(b, url, "DROP TABLE IF EXISTS t")
				task, err := c.StartSink(b.Context(), remote.Task{Connector: "b", Config: map[string]string{"connection.url": url, "insert.mode": mode, "pk.mode": "record_key", "auto.create": "true"}})
				if err != nil {
					b.Fatal(err)
				}
				for from := 0; from < benchRows; from += 2000 {
					var records []plugin.SinkRecord
					for i := range 2000 {
						r := data.NewRecord("t", id(from+i), of(schema, epoch, "a name that is sixty bytes long, as those of the source are.", 1.5, int32(i)))
						r.Offset, r.Partition = int64(from+i), 0
						records = append(records, plugin.SinkRecord{Record: r, Original: plugin.TopicPartition{Topic: "t"}})
					}
					if _, err := task.Put(b.Context(), records); err != nil {
						b.Fatal(err)
					}
				}
				if err := task.Stop(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(benchRows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
