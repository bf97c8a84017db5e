// Command connect measures a standalone Connect worker: from its start to its REST interface, records through a file, a topic and a file, records of a topic
// into nothing, records that a connector makes through a topic into nothing, and what the worker and its plugins spend on them. With -jvm the same is done
// with Kafka's own worker, on the same broker and in turn, and the ratios are told; Kafka has no connector that makes records:
//
//	go -C tests run ./bench/connect -jvm "connect-standalone"
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/tests/devserver"
)

const (
	within   = 10 * time.Minute // bounds each step
	lineSize = 100              // bytes of a record
	rest     = "127.0.0.1:18083"
)

// bench is what the measurements share.
type bench struct {
	server  *devserver.Server
	admin   *kadm.Client
	dir     string
	records int
	topics  int // made so far
}

// worker is a kind of worker: how it is started with files of properties, and the properties of its sink that keeps nothing and of its source that makes
// records, empty if it has none.
type worker struct {
	name               string
	nothing, generator string
	command            []string
}

// result is what one case has shown.
type result struct {
	start, took   time.Duration
	cpu, resident float64 // seconds and MiB, plugins included
}

func main() {
	records := flag.Int("records", 2_000_000, "records of each case")
	rounds := flag.Int("rounds", 1, "how often each case is measured, in turn")
	jvm := flag.String("jvm", "", "`COMMAND` that starts Kafka's standalone worker with files of properties; empty for Cauce's alone")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *records, *rounds, *jvm)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "connect:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, records, rounds int, jvm string) (err error) {
	binary, err := devserver.Binary()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "cauce-connect-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	server, err := devserver.Start(ctx, devserver.Options{DataDir: filepath.Join(dir, "data"), Args: []string{"--set", "connect.enable=false"}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	client, err := kgo.NewClient(kgo.SeedBrokers(server.Bootstrap))
	if err != nil {
		return err
	}
	defer client.Close()
	b := &bench{server: server, admin: kadm.NewClient(client), dir: dir, records: records}
	workers := []worker{{"Cauce", "connector.class=blackhole\n", fmt.Sprintf("connector.class=generator\nvalue.size=%d\ncount=%d\nbatch.size=2000\n", lineSize, records), []string{binary, "connector", "standalone"}}}
	if jvm != "" {
		workers = append([]worker{{"Kafka", "connector.class=FileStreamSink\nfile=/dev/null\n", "", strings.Fields(jvm)}}, workers...)
	}
	for round := range rounds {
		for _, c := range []struct {
			name    string
			measure func(context.Context, worker) (result, error)
		}{{"file to topic to file", b.throughFiles}, {"topic to nothing", b.intoNothing}, {"generator to nothing", b.fromGenerator}} {
			var all []result
			for _, w := range workers {
				if w.generator == "" && c.name == "generator to nothing" {
					continue
				}
				r, err := c.measure(ctx, w)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", c.name, w.name, err)
				}
				all = append(all, r)
				fmt.Printf("%d %-22s %-6s start %6.2f s  %9.0f records/s  %9.0f records/CPU-s  %6.0f MiB\n", round+1, c.name, w.name, r.start.Seconds(),
					float64(records)/r.took.Seconds(), float64(records)/r.cpu, r.resident)
			}
			if len(all) == 2 {
				k, o := all[0], all[1]
				fmt.Printf("%d %-22s ratio  start 1/%.0f  records/s %.2f  records/CPU-s %.2f  MiB %.2f\n", round+1, c.name,
					k.start.Seconds()/o.start.Seconds(), k.took.Seconds()/o.took.Seconds(), k.cpu/o.cpu, o.resident/k.resident)
			}
		}
	}
	return nil
}

// topic makes a topic of one partition.
func (b *bench) topic(ctx context.Context) (string, error) {
	b.topics++
	name := fmt.Sprint("bench-", b.topics)
	_, err := b.admin.CreateTopic(ctx, 1, 1, nil, name)
	return name, err
}

// throughFiles takes the lines of a file to another file.
func (b *bench) throughFiles(ctx context.Context, w worker) (result, error) {
	topic, err := b.topic(ctx)
	if err != nil {
		return result{}, err
	}
	from, to := filepath.Join(b.dir, topic+".in"), filepath.Join(b.dir, topic+".out")
	text := bytes.Repeat(append(bytes.Repeat([]byte("x"), lineSize), '\n'), b.records)
	if err := os.WriteFile(from, text, 0o600); err != nil {
		return result{}, err
	}
	size := int64(len(text))
	defer os.Remove(from)
	defer os.Remove(to)
	return b.measure(ctx, w, []string{
		"name=in-" + topic + "\nconnector.class=FileStreamSource\nfile=" + from + "\ntopic=" + topic + "\nbatch.size=2000\n",
		"name=out-" + topic + "\nconnector.class=FileStreamSink\nfile=" + to + "\ntopics=" + topic + "\n",
	}, func() (bool, error) {
		info, err := os.Stat(to)
		if errors.Is(err, os.ErrNotExist) {
			return false, nil
		}
		return err == nil && info.Size() >= size, err
	})
}

// intoNothing has a sink take the records of a topic that keeps none.
func (b *bench) intoNothing(ctx context.Context, w worker) (result, error) {
	topic, err := b.topic(ctx)
	if err != nil {
		return result{}, err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(b.server.Bootstrap), kgo.DefaultProduceTopic(topic))
	if err != nil {
		return result{}, err
	}
	defer client.Close()
	value := bytes.Repeat([]byte("x"), lineSize)
	var failed error
	for range b.records {
		client.Produce(ctx, &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed = err
			}
		})
	}
	if err := errors.Join(client.Flush(ctx), failed); err != nil {
		return result{}, err
	}
	return b.measure(ctx, w, []string{w.sink(topic)}, func() (bool, error) { return b.swallowed(ctx, topic), nil })
}

// fromGenerator has a sink that keeps nothing take what a source makes.
func (b *bench) fromGenerator(ctx context.Context, w worker) (result, error) {
	topic, err := b.topic(ctx)
	if err != nil {
		return result{}, err
	}
	source := "name=make-" + topic + "\n" + w.generator + "topic=" + topic + "\n"
	return b.measure(ctx, w, []string{source, w.sink(topic)}, func() (bool, error) { return b.swallowed(ctx, topic), nil })
}

// sink is the configuration of a sink that keeps nothing of a topic.
func (w worker) sink(topic string) string {
	return "name=nothing-" + topic + "\n" + w.nothing + "topics=" + topic + "\n"
}

// swallowed says whether such a sink has committed all records. Its group may not be there yet.
func (b *bench) swallowed(ctx context.Context, topic string) bool {
	offsets, err := b.admin.FetchOffsets(ctx, "connect-nothing-"+topic)
	o, ok := offsets.Lookup(topic, 0)
	return err == nil && ok && o.At >= int64(b.records)
}

// measure starts a worker with connectors and waits until they are done.
func (b *bench) measure(ctx context.Context, w worker, connectors []string, done func() (bool, error)) (r result, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	properties := "bootstrap.servers=" + b.server.Bootstrap + "\nkey.converter=org.apache.kafka.connect.storage.StringConverter\n" +
		"value.converter=org.apache.kafka.connect.storage.StringConverter\noffset.flush.interval.ms=500\nlisteners=http://" + rest + "\n" +
		"offset.storage.file.filename=" + filepath.Join(b.dir, fmt.Sprint("offsets-", b.topics)) + "\n"
	args := w.command[1:]
	for i, text := range append([]string{properties}, connectors...) {
		file := filepath.Join(b.dir, fmt.Sprintf("%d-%d.properties", b.topics, i))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return r, err
		}
		args = append(args, file)
	}
	log, err := os.Create(filepath.Join(b.dir, "worker.log"))
	if err != nil {
		return r, err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, w.command[0], args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return r, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer func() {
		cancel()
		<-ended
		if err != nil {
			text, _ := os.ReadFile(log.Name())
			err = fmt.Errorf("%w\n%s", err, text[max(0, len(text)-4000):])
		}
	}()
	if err := await(ctx, ended, func() (bool, error) { return serves(len(connectors)), nil }); err != nil {
		return r, err
	}
	r.start = time.Since(began)
	before, _, err := family(cmd.Process.Pid)
	if err != nil {
		return r, err
	}
	moved := time.Now()
	if err := await(ctx, ended, done); err != nil {
		return r, err
	}
	r.took = time.Since(moved)
	after, resident, err := family(cmd.Process.Pid)
	r.cpu, r.resident = after-before, resident
	return r, err
}

// serves says whether the worker's REST interface answers, and has so many connectors.
func serves(connectors int) bool {
	resp, err := http.Get("http://" + rest + "/connectors")
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	var names []string
	return resp.StatusCode == http.StatusOK && json.NewDecoder(resp.Body).Decode(&names) == nil && len(names) == connectors
}

// await looks every few milliseconds.
func await(ctx context.Context, ended <-chan error, done func() (bool, error)) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case err := <-ended:
			return fmt.Errorf("the worker has ended: %w", errors.Join(err, context.Canceled))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
