//go:build conformance

package conformance

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cauce-stream/cauce/tests/conformance/internal/client"
	"github.com/cauce-stream/cauce/tests/conformance/internal/server"
	"github.com/cauce-stream/cauce/tests/conformance/internal/tool"
	"github.com/cauce-stream/cauce/tests/conformance/internal/wire"
	"github.com/cauce-stream/cauce/tests/conformance/internal/workload"
)

// TestDataOfKafkaAndBack lets Apache Kafka write partitions, opens their folders in Cauce, writes on, and opens them in
// Kafka again: first after clean shutdowns, then after kills.
func TestDataOfKafkaAndBack(t *testing.T) {
	if under.Kafka || os.Getenv("CAUCE_BOOTSTRAP") != "" {
		t.Skip("needs a Cauce that the suite starts")
	}
	for name, end := range map[string]func(*server.Server) error{
		"stopped": (*server.Server).Stop,
		"killed":  (*server.Server).Kill,
	} {
		t.Run(name, func(t *testing.T) {
			e := &exchange{kafkaDir: t.TempDir(), cauceDir: t.TempDir(), end: end, killed: name == "killed"}
			e.run(t)
		})
	}
}

// exchange moves partition folders between two servers that are not running.
type exchange struct {
	kafkaDir, cauceDir string
	end                func(*server.Server) error
	killed             bool

	jobs     []client.Job
	producer int64 // the idempotent producer that writes batches of ten to the topic "extra"
}

const extraTopic = "extra"

func (e *exchange) run(t *testing.T) {
	kafka := e.start(t, true)
	franz := client.NewFranz(kafka.Bootstrap)
	for _, codec := range client.Codecs {
		job := client.Job{Topic: "data-" + codec, Partitions: 2, Records: fewRecords, Codec: codec, Acks: "all"}
		e.create(t, kafka, job.Topic, job.Partitions)
		if err := franz.Produce(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		e.jobs = append(e.jobs, job)
	}
	e.create(t, kafka, extraTopic, 1)
	e.producer = newProducer(t, kafka)
	e.write(t, kafka, 0, 0)
	e.write(t, kafka, 10, 10)
	e.finish(t, kafka)

	cauce := e.start(t, false)
	for _, job := range e.jobs {
		e.create(t, cauce, job.Topic, job.Partitions)
	}
	e.create(t, cauce, extraTopic, 1)
	if err := cauce.Stop(); err != nil {
		t.Fatal(err)
	}
	e.move(t, kafka.LogDir, cauce.LogDir)

	cauce = e.start(t, false)
	e.check(t, cauce, 20)
	e.write(t, cauce, 10, 10) // a repeat that Kafka took down in its snapshot or its log
	e.write(t, cauce, 20, 20)
	e.finish(t, cauce)
	if epochs, err := filepath.Glob(filepath.Join(cauce.LogDir, "[de]*-[0-9]", "leader-epoch-checkpoint")); !e.killed && len(epochs) != 2*len(e.jobs)+1 {
		t.Errorf("after a clean stop, leader-epoch-checkpoint is in %v, %v", epochs, err)
	}
	e.move(t, cauce.LogDir, kafka.LogDir)
	e.dump(t, kafka.LogDir)

	kafka = e.start(t, true)
	e.check(t, kafka, 30)
	e.write(t, kafka, 20, 20)
	e.write(t, kafka, 30, 30)
	if err := kafka.Stop(); err != nil {
		t.Fatal(err)
	}
}

func (e *exchange) start(t *testing.T, kafka bool) *server.Server {
	t.Helper()
	var s *server.Server
	var err error
	if kafka {
		s, err = server.StartKafka(t.Context(), absClientDir(t, "java"), server.Options{DataDir: e.kafkaDir})
	} else {
		s, err = server.StartCauce(t.Context(), root, server.Options{DataDir: e.cauceDir})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Kill() })
	return s
}

// finish ends a server the way this exchange is about.
func (e *exchange) finish(t *testing.T, s *server.Server) {
	t.Helper()
	if err := e.end(s); err != nil {
		t.Fatal(err)
	}
}

func (e *exchange) create(t *testing.T, s *server.Server, topic string, partitions int) {
	t.Helper()
	c := dialTo(t, s)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := c.CreateTopic(ctx, topic, int32(partitions), "retention.ms", "-1", "segment.bytes", "1048576"); err != nil {
		t.Fatal(err)
	}
}

// write sends a batch of ten records of the producer and wants it at an offset.
func (e *exchange) write(t *testing.T, s *server.Server, sequence int32, want int64) {
	t.Helper()
	c := dialTo(t, s)
	defer c.Close()
	awaitTopic(t, c, extraTopic)
	batch := wire.Batch{Records: seedRecords(int(sequence), 10, 0), Producer: &wire.Producer{ID: e.producer, Sequence: sequence}}
	for i := range batch.Records { // a producer whose last record is a day old is forgotten
		batch.Records[i].TimestampMs = time.Now().UnixMilli()
	}
	offset, err := c.Append(extraTopic, 0, batch.Encode())
	if err != nil || offset != want {
		t.Errorf("sequence %d went to offset %d, %v, want %d", sequence, offset, err, want)
	}
}

// check reads everything that was written, by offset and by time.
func (e *exchange) check(t *testing.T, s *server.Server, extra int64) {
	t.Helper()
	c := dialTo(t, s)
	defer c.Close()
	franz := client.NewFranz(s.Bootstrap)
	ctx, cancel := context.WithTimeout(t.Context(), jobTimeout)
	defer cancel()
	for _, job := range e.jobs {
		awaitTopic(t, c, job.Topic)
		got, err := franz.Consume(ctx, job)
		if err != nil {
			t.Errorf("%s: %v", job.Topic, err)
			continue
		}
		compare(t, job.Topic, got, workload.Expect(job.Records, job.Partitions, workload.Shape{}, workload.Shape{}))
		checkEnd(ctx, t, franz, job)
		for _, i := range []int64{0, 1, 1250, 2499} {
			offset, err := c.Offset(job.Topic, 0, workload.BaseTimestampMs+2*i)
			if err != nil || offset != i {
				t.Errorf("%s: time of record %d is at offset %d, %v", job.Topic, i, offset, err)
			}
		}
	}
	awaitTopic(t, c, extraTopic)
	if end, err := c.Offset(extraTopic, 0, -1); err != nil || end != extra {
		t.Errorf("%s ends at %d, %v, want %d", extraTopic, end, err, extra)
	}
}

// move puts the partition folders of one log folder in place of those of another, which keep their topic ids.
func (e *exchange) move(t *testing.T, from, to string) {
	t.Helper()
	folders, err := filepath.Glob(filepath.Join(to, "*-[0-9]"))
	if err != nil {
		t.Fatal(err)
	}
	moved := 0
	for _, folder := range folders {
		name := filepath.Base(folder)
		if !strings.HasPrefix(name, "data-") && !strings.HasPrefix(name, extraTopic) {
			continue
		}
		replaceFiles(t, filepath.Join(from, name), folder)
		moved++
	}
	if moved != 2*len(e.jobs)+1 {
		t.Fatalf("%d partition folders in %s", moved, to)
	}
	if e.killed { // what was moved in was not closed
		_ = os.Remove(filepath.Join(to, ".kafka_cleanshutdown"))
	}
}

func replaceFiles(t *testing.T, from, to string) {
	t.Helper()
	const keep = "partition.metadata"
	old, err := os.ReadDir(to)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range old {
		if f.Name() != keep {
			if err := os.RemoveAll(filepath.Join(to, f.Name())); err != nil {
				t.Fatal(err)
			}
		}
	}
	files, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if f.Name() == keep {
			continue
		}
		data, err := os.ReadFile(filepath.Join(from, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, f.Name()), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// dump lets Kafka's own tool check every log, index and snapshot of the partitions.
func (e *exchange) dump(t *testing.T, logDir string) {
	t.Helper()
	runner, err := tool.NewRunner(t.Context(), absClientDir(t, "java"))
	if err != nil {
		t.Fatal(err)
	}
	defer runner.Close()
	for _, kind := range []string{"log", "snapshot", "index", "timeindex"} {
		files, err := filepath.Glob(filepath.Join(logDir, "[de]*-[0-9]", "*."+kind))
		if err != nil || len(files) == 0 {
			t.Fatalf("no %s files: %v", kind, err)
		}
		args := []string{"--files", strings.Join(files, ",")}
		if strings.HasSuffix(kind, "index") {
			if e.killed {
				continue // an index that was not closed may be preallocated or behind
			}
			args = append(args, "--index-sanity-check")
		}
		result, err := runner.Run("kafka-dump-log", "", args...)
		if err != nil {
			t.Fatal(err)
		}
		if result.ExitCode != 0 || strings.Contains(result.Stdout, "isvalid: false") || strings.Contains(result.Stdout, "Found") {
			t.Errorf("kafka-dump-log of %s files: exit %d\n%s\n%s", kind, result.ExitCode, result.Stdout[max(0, len(result.Stdout)-2000):], result.Stderr)
		}
	}
}

func dialTo(t *testing.T, s *server.Server) *wire.Conn {
	t.Helper()
	c, err := wire.Dial(s.Bootstrap)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func awaitTopic(t *testing.T, c *wire.Conn, topic string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := c.AwaitTopic(ctx, topic); err != nil {
		t.Fatal(err)
	}
}

func newProducer(t *testing.T, s *server.Server) int64 {
	t.Helper()
	c := dialTo(t, s)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	id, err := c.NewProducerID(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return id
}
