package host

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cauce-stream/cauce/libs/plugin"
)

// The test program is also the plugin program of the tests, and a host that is killed.
const (
	fixtureVariable = "PLUGIN_FIXTURE_VERSION"
	hostVariable    = "PLUGIN_FIXTURE_HOST"
)

func TestMain(m *testing.M) {
	switch version := os.Getenv(fixtureVariable); version {
	case "":
	case "source":
		plugin.Serve(moodySource{})
		return
	default:
		plugin.Serve(faulty{version}, keyLength{}, moodySource{}, moodySink{})
		return
	}
	if folder := os.Getenv(hostVariable); folder != "" {
		serveUntilKilled(folder)
		return
	}
	os.Exit(m.Run())
}

// serveUntilKilled prints the process id of its plugin.
func serveUntilKilled(folder string) {
	h, err := New(Config{Path: []string{folder}}, Deps{})
	if err == nil {
		_, err = h.Assign(context.Background(), "faulty", ask("good"))
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(h.List()[0].PID)
	select {}
}

// faulty does what the group of the request is called.
type faulty struct{ version string }

func (f faulty) Info() plugin.Info {
	return plugin.Info{Name: "faulty", Version: f.version, Doc: "fails in every way", WantsLag: true}
}

func (f faulty) Assign(ctx context.Context, r *plugin.Request) (plugin.Response, error) {
	slog.InfoContext(ctx, "asked", "group", r.Group)
	all := plugin.Response{nil, {{Topic: 0, Partitions: []int32{0, 1, 2}}}}
	switch r.Group {
	case "error":
		return nil, errors.New("no member has a rack")
	case "panic":
		panic("index out of range")
	case "exit":
		fmt.Fprintln(os.Stderr, "out of luck")
		os.Exit(3)
	case "hang":
		select {}
	case "wait":
		return all, waitForFile(ctx, r.Members[0].ID)
	case "huge":
		return plugin.Response{{{Partitions: hundredMegabytes()}}}, nil
	case "hungry":
		kept := hundredMegabytes()
		<-ctx.Done()
		return plugin.Response{{{Partitions: kept[:1]}}}, nil
	case "member":
		return plugin.Response{nil, nil, {{Topic: 0, Partitions: []int32{0}}}}, nil
	case "topic":
		return plugin.Response{{{Topic: 7, Partitions: []int32{0}}}}, nil
	case "flood":
		for i := range 100_000 {
			fmt.Fprintln(os.Stderr, "line", i, strings.Repeat("x", 100))
			fmt.Fprintln(os.Stdout, "line", i)
		}
	}
	return all, nil
}

func hundredMegabytes() []int32 {
	p := make([]int32, 100<<20/5)
	for i := range p {
		p[i] = 1 << 30 // five bytes each on the wire
	}
	return p
}

// waitForFile reads a line from a named pipe, which blocks until the test writes one.
func waitForFile(ctx context.Context, path string) error {
	read := make(chan error, 1)
	go func() {
		f, err := os.Open(path)
		if err == nil {
			_, err = bufio.NewReader(f).ReadString('\n')
		}
		read <- err
	}()
	select {
	case err := <-read:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// keyLength is a partitioner.
type keyLength struct{}

func (keyLength) Info() plugin.Info { return plugin.Info{Name: "key-length", Version: "1"} }

func (keyLength) Partition(_ context.Context, topic string, partitions int32, records []plugin.Record) ([]int32, error) {
	answer := make([]int32, len(records))
	for i, r := range records {
		answer[i] = int32(len(r.Key)) % partitions
	}
	if topic == "beyond" {
		answer[0] = partitions
	}
	return answer, nil
}

// ask is a request whose group says what the plugin shall do.
func ask(group string) *plugin.Request {
	return &plugin.Request{
		Group: group, Topics: []plugin.Topic{{ID: [16]byte{1}, Name: "orders", Partitions: 3}},
		Members: []plugin.Member{{ID: "a", Topics: []int{0}}, {ID: "b", Topics: []int{0}}},
	}
}

// install writes a launcher for the test program, as an author would put a program into place.
func install(t *testing.T, folder, name, version string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\n%s=%s exec %s\n", fixtureVariable, version, self)
	installScript(t, folder, name, script)
}

func installScript(t *testing.T, folder, name, script string) {
	t.Helper()
	hidden := filepath.Join(folder, "."+name)
	if err := os.WriteFile(hidden, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(hidden, filepath.Join(folder, name)); err != nil {
		t.Fatal(err)
	}
}

// start starts a host over a folder and closes it with the test.
func start(t *testing.T, folder string, c Config) (*Host, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	c.Path = []string{folder}
	if c.ScanInterval == 0 {
		c.ScanInterval = time.Hour
	}
	h, err := New(c, Deps{Log: zap.New(core)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			for _, line := range logs.All() {
				t.Log(line.Level, line.LoggerName, line.Message, line.ContextMap())
			}
		}
	})
	return h, logs
}

// good makes a call that must succeed.
func good(t *testing.T, h *Host) {
	t.Helper()
	answer, err := h.Assign(t.Context(), "faulty", ask("good"))
	if err != nil {
		t.Fatal(err)
	}
	if len(answer) != 2 || answer[0] != nil || len(answer[1]) != 1 || len(answer[1][0].Partitions) != 3 {
		t.Fatalf("answer %v", answer)
	}
}
