//go:build conformance

package conformance

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cauce-stream/cauce/tests/conformance/internal/cache"
	"github.com/cauce-stream/cauce/tests/conformance/internal/client"
	"github.com/cauce-stream/cauce/tests/conformance/internal/server"
	"github.com/cauce-stream/cauce/tests/conformance/internal/workload"
)

const (
	manyRecords = 100_000
	fewRecords  = 5_000
	// jobTimeout bounds one writing or reading of a topic.
	jobTimeout = 3 * time.Minute
)

// subject is one client with the number of partitions that its topics have.
type subject struct {
	client.Client
	partitions int
}

// TestClients lets every client write with every codec and every acks, and checks what franz-go reads back; then lets
// every client read what the Java client and franz-go wrote with every codec.
func TestClients(t *testing.T) {
	subjects := openClients(t)
	franz := client.NewFranz(under.Bootstrap)
	kept := map[string]client.Job{}
	t.Run("write", func(t *testing.T) {
		for _, s := range subjects {
			t.Run(s.Name(), func(t *testing.T) {
				for _, codec := range s.Codecs() {
					job := writeAndCheck(t, franz, s, codec, "all", manyRecords)
					if s.Name() == "java" {
						kept[codec] = job
					} else {
						dropTopic(t, franz, job.Topic)
					}
					for _, acks := range []string{"0", "1"} {
						dropTopic(t, franz, writeAndCheck(t, franz, s, codec, acks, fewRecords).Topic)
					}
				}
			})
		}
	})
	t.Run("read", func(t *testing.T) { readEverything(t, franz, subjects, kept) })
}

func readEverything(t *testing.T, franz *client.Franz, subjects []subject, java map[string]client.Job) {
	written := maps.Clone(java)
	for _, codec := range client.Codecs {
		written["franz-go "+codec] = writeAndCheck(t, franz, subject{franz, 3}, codec, "all", fewRecords)
	}
	for _, s := range subjects {
		t.Run(s.Name(), func(t *testing.T) {
			for _, name := range slices.Sorted(maps.Keys(written)) {
				job := written[name]
				ctx, cancel := context.WithTimeout(t.Context(), jobTimeout)
				got, err := s.Consume(ctx, job)
				cancel()
				if err != nil {
					t.Errorf("%s reading %s: %v", s.Name(), job.Topic, err)
					continue
				}
				compare(t, fmt.Sprintf("%s as %s reads it", job.Topic, s.Name()), got,
					workload.Expect(job.Records, job.Partitions, workload.Shape{}, s.Reads()))
			}
		})
	}
	for _, job := range written {
		dropTopic(t, franz, job.Topic)
	}
}

// TestSaramaVersions lets sarama speak as several versions of Kafka: it does not negotiate but trusts its configuration.
func TestSaramaVersions(t *testing.T) {
	franz := client.NewFranz(under.Bootstrap)
	for _, version := range []string{"2.1.0", "2.8.0", "3.6.0", "4.0.0"} {
		t.Run(version, func(t *testing.T) {
			s, err := client.NewSarama(under.Bootstrap, version)
			if err != nil {
				t.Fatal(err)
			}
			job := writeAndCheck(t, franz, subject{s, 3}, "zstd", "all", fewRecords)
			ctx, cancel := context.WithTimeout(t.Context(), jobTimeout)
			defer cancel()
			got, err := s.Consume(ctx, job)
			if err != nil {
				t.Fatal(err)
			}
			compare(t, job.Topic, got, workload.Expect(job.Records, job.Partitions, s.Writes(), s.Reads()))
			dropTopic(t, franz, job.Topic)
		})
	}
}

// writeAndCheck creates a topic with the client, writes to it, and checks by franz-go that every record is there once,
// in order, byte by byte, stored with the codec that was asked for, and that nothing else is.
func writeAndCheck(t *testing.T, franz *client.Franz, s subject, codec, acks string, records int) client.Job {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*jobTimeout)
	defer cancel()
	job := client.Job{
		Topic:      fmt.Sprintf("clients-%s-%s-%s-acks%s", run, s.Name(), codec, acks),
		Partitions: s.partitions, Records: records, Codec: codec, Acks: acks,
	}
	started := time.Now()
	if err := s.CreateTopic(ctx, job.Topic, job.Partitions); err != nil {
		t.Fatalf("%s creating %s: %v", s.Name(), job.Topic, err)
	}
	if err := franz.AwaitLeaders(ctx, job.Topic, job.Partitions); err != nil {
		t.Fatalf("%s after creation by %s: %v", job.Topic, s.Name(), err)
	}
	if err := s.Produce(ctx, job); err != nil {
		t.Fatalf("%s writing %s: %v", s.Name(), job.Topic, err)
	}
	wrote := time.Since(started)
	reader := workload.Shape{NoTimestamps: s.Writes().NoTimestamps}
	got, codecs, err := franz.Read(ctx, job, reader)
	if err != nil {
		t.Fatalf("franz-go reading %s: %v", job.Topic, err)
	}
	compare(t, job.Topic, got, workload.Expect(records, job.Partitions, s.Writes(), reader))
	// Clients leave a batch alone when compression does not make it smaller, so only most records must have the codec.
	if codecs[codec] < records*9/10 {
		t.Errorf("%s: records by stored codec: %v, want %s", job.Topic, codecs, codec)
	}
	checkEnd(ctx, t, franz, job)
	t.Logf("%s: %d records written in %v, read by franz-go in %v", job.Topic, records, wrote, time.Since(started)-wrote)
	return job
}

func checkEnd(ctx context.Context, t *testing.T, franz *client.Franz, job client.Job) {
	t.Helper()
	ends, err := franz.EndOffsets(ctx, job.Topic)
	if err != nil {
		t.Fatalf("%s: %v", job.Topic, err)
	}
	total := int64(0)
	for _, end := range ends {
		total += end
	}
	if len(ends) != job.Partitions || total != int64(job.Records) {
		t.Errorf("%s: end offsets %v, want %d records in %d partitions", job.Topic, ends, job.Records, job.Partitions)
	}
}

func compare(t *testing.T, what string, got, want []workload.PartitionDigest) {
	t.Helper()
	for p := range want {
		if p >= len(got) || got[p] != want[p] {
			t.Errorf("%s: partition %d: got %v, want %v", what, p, got, want[p])
		}
	}
}

func dropTopic(t *testing.T, franz *client.Franz, topic string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), jobTimeout)
	defer cancel()
	if err := franz.DeleteTopic(ctx, topic); err != nil {
		t.Errorf("deleting %s: %v", topic, err)
	}
}

func openClients(t *testing.T) []subject {
	t.Helper()
	clients := []client.Client{client.NewFranz(under.Bootstrap), client.NewKafkaGo(under.Bootstrap)}
	sarama, err := client.NewSarama(under.Bootstrap, "4.0.0")
	if err != nil {
		t.Fatal(err)
	}
	clients = append(clients, sarama, javaClient(t, "java", "java"), javaClient(t, "java2", "java-2.1"), nodeClient(t),
		pythonClient(t, "confluent-kafka", workload.Shape{}),
		pythonClient(t, "kafka-python", workload.Shape{NoAllNull: true, NullHeaderIsEmpty: true}))
	kcat, err := cache.Debian(t.Context(), "kcat", "kcat")
	if err != nil {
		t.Fatal(err)
	}
	subjects := []subject{{client.NewKcat(kcat, under.Bootstrap), 1}}
	for _, c := range clients {
		subjects = append(subjects, subject{c, 3})
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return subjects
}

func javaClient(t *testing.T, dir, name string) client.Client {
	t.Helper()
	return newDriver(t, name, workload.Shape{}, "java", append(javaProgram(t, dir, "java/Driver.java", "-Xmx512m"), under.Bootstrap)...)
}

// javaProgram is what java is to be given to run a class: the folder of clients whose pom names the jars, the source below
// testdata/clients, and flags.
func javaProgram(t *testing.T, dir, source string, flags ...string) []string {
	t.Helper()
	libs, err := cache.Maven(t.Context(), absClientDir(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	classes, err := cache.Javac(t.Context(), libs, absClientDir(t, source))
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat(flags, []string{"-XX:+UseSerialGC", "-Dlog4j2.configurationFile=" + absClientDir(t, "java/log4j2.properties"),
		"-cp", classes + ":" + filepath.Join(libs, "*"), strings.TrimSuffix(filepath.Base(source), ".java")})
}

func nodeClient(t *testing.T) client.Client {
	t.Helper()
	dir := absClientDir(t, "node")
	modules, err := cache.Npm(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return newDriver(t, "kafkajs", workload.Shape{NullHeaderIsEmpty: true},
		"node", filepath.Join(dir, "driver.js"), under.Bootstrap, modules)
}

func pythonClient(t *testing.T, name string, writes workload.Shape) client.Client {
	t.Helper()
	dir := absClientDir(t, "python")
	python, err := cache.Python(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return newDriver(t, name, writes, python, filepath.Join(dir, "driver.py"), name, under.Bootstrap)
}

func newDriver(t *testing.T, name string, writes workload.Shape, program string, args ...string) client.Client {
	t.Helper()
	d, err := client.NewDriver(name, writes, program, args...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func absClientDir(t *testing.T, name string) string {
	t.Helper()
	dir, err := server.ClientDir(root, name)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
