//go:build e2e && linux

package connect

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/libs/testport"
	"github.com/cauce-stream/cauce/tests/connectrest"
	"github.com/cauce-stream/cauce/tests/localcluster"
	"github.com/cauce-stream/cauce/tests/retry"
)

const (
	// patience is how long anything may take that comes about by itself.
	patience   = 90 * time.Second
	askTimeout = 20 * time.Second
)

// config is a connector's configuration.
type config map[string]string

// stage is a cluster with Connect workers.
type stage struct {
	*testing.T
	cluster *localcluster.Cluster
	brokers []string
	rest    map[int32]string // of workers, by the id of their node
	http    *http.Client
}

// startStage brings a cluster up with three workers, whose plugins are those of the project and the witnesses of this package.
func startStage(t *testing.T, flags ...string) *stage {
	t.Helper()
	c, err := localcluster.Up(t.Context(), t.TempDir(), append([]string{"--network", "loopback", "--base-port", strconv.Itoa(testport.Range(t, 40)),
		"--controllers", "1", "--brokers", "3", "--groupcoords", "2", "--txncoords", "1", "--connects", "3",
		"--set", "replica.lag.time.max.ms=3000", "--set", "broker.session.timeout.ms=4000", "--set", "min.insync.replicas=2", "--set", "group.min.session.timeout.ms=1000",
		"--set", fmt.Sprint("connect.session.timeout.ms=", session.Milliseconds()), "--set", "connect.heartbeat.interval.ms=500", "--set", fmt.Sprint("connect.scheduled.rebalance.max.delay.ms=", delay.Milliseconds()),
		"--set", "connect.offset.flush.interval.ms=500", "--set", "connect.plugin.path=" + strings.Join(pluginPath(t), ","),
		"--set", "connect.consumer.session.timeout.ms=6000", "--set", "connect.consumer.heartbeat.interval.ms=500"}, flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{T: t, cluster: c, rest: map[int32]string{}, http: &http.Client{Timeout: askTimeout}}
	t.Cleanup(func() {
		if err := c.Down(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			s.show()
		}
	})
	for _, n := range s.nodes("broker") {
		s.brokers = append(s.brokers, n.Bootstrap)
	}
	for _, n := range s.nodes("connect") {
		s.rest[n.ID] = "http://" + n.REST
	}
	return s
}

// pluginPath is the project's connectors, and this program.
func pluginPath(t *testing.T) []string {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	connectors, err := filepath.Abs("../../../bin/plugins/cauce-connectors")
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "cauce-witness")
	if err := os.Symlink(own, link); err != nil {
		t.Fatal(err)
	}
	return []string{connectors, link}
}

func (s *stage) nodes(role string) []localcluster.Node {
	s.Helper()
	nodes, err := s.cluster.Of(context.WithoutCancel(s.Context()), role)
	if err != nil {
		s.Fatal(err)
	}
	return nodes
}

// show prints the ends of the workers' logs.
func (s *stage) show() {
	for _, n := range s.nodes("connect") {
		text, err := os.ReadFile(n.Log)
		if err != nil {
			s.Error(err)
		}
		s.Logf("node %d said:\n%s", n.ID, text[max(0, len(text)-8<<10):])
	}
	if *keep == "" {
		return
	}
	folder := filepath.Join(*keep, strings.NewReplacer("/", "-", " ", "-").Replace(s.Name()))
	err := os.MkdirAll(folder, 0o755)
	if out, fault := exec.Command("cp", "-r", "--sparse=always", s.cluster.Dir, folder).CombinedOutput(); fault != nil {
		err = errors.Join(err, fmt.Errorf("cp: %w: %s", fault, out))
	}
	if err != nil {
		s.Error(err)
	}
	s.Logf("kept in %s", folder)
}

func (s *stage) client(opts ...kgo.Opt) *kgo.Client {
	s.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(s.brokers...)}, opts...)...)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(client.Close)
	return client
}

// eventually waits until something holds.
func (s *stage) eventually(what string, try func(ctx context.Context) error) {
	s.Helper()
	if err := retry.Until(s.Context(), patience, try); err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

// ask asks one of the workers, and reads the answer into the place that is given if it is not nil.
func (s *stage) ask(ctx context.Context, method, path string, body, into any) error {
	var faults []error
	ids := make([]int32, 0, len(s.rest))
	for id := range s.rest {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		err := connectrest.Ask(ctx, s.http, method, s.rest[id]+path, body, into)
		if refused, ok := errors.AsType[*connectrest.Refusal](err); err == nil || ok && refused.Code < 500 {
			return err
		}
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// put makes a connector, or changes it.
func (s *stage) put(name string, c config) {
	s.Helper()
	s.eventually("configure "+name, func(ctx context.Context) error {
		err := s.ask(ctx, http.MethodPut, "/connectors/"+name+"/config", c, nil)
		if refused, ok := errors.AsType[*connectrest.Refusal](err); ok && refused.Code == http.StatusBadRequest {
			s.Fatal(err)
		}
		return err
	})
}

// do asks for a change without a body.
func (s *stage) do(method, path string) {
	s.Helper()
	s.eventually(method+" "+path, func(ctx context.Context) error { return s.ask(ctx, method, path, nil, nil) })
}

// state is what REST says of a connector or a task.
type state struct {
	ID       int
	State    string
	WorkerID string `json:"worker_id"`
	Trace    string
}

// status is what REST says of a connector and its tasks.
type status struct {
	Name      string
	Connector state
	Tasks     []state
}

// statuses are those of all connectors.
func (s *stage) statuses(ctx context.Context) (map[string]status, error) {
	var all map[string]struct{ Status status }
	if err := s.ask(ctx, http.MethodGet, "/connectors?expand=status", nil, &all); err != nil {
		return nil, err
	}
	of := map[string]status{}
	for name, one := range all {
		of[name] = one.Status
	}
	return of, nil
}

// await waits until a connector and that many tasks of it are in a state.
func (s *stage) await(name, want string, tasks int) {
	s.Helper()
	s.eventually(fmt.Sprintf("%s with %d tasks is %s", name, tasks, want), func(ctx context.Context) error {
		return s.is(ctx, name, want, tasks)
	})
}

func (s *stage) is(ctx context.Context, name, want string, tasks int) error {
	var got status
	if err := s.ask(ctx, http.MethodGet, "/connectors/"+name+"/status", nil, &got); err != nil {
		return err
	}
	ok := got.Connector.State == want && len(got.Tasks) == tasks
	for _, task := range got.Tasks {
		ok = ok && task.State == want
	}
	if !ok {
		return fmt.Errorf("it is %+v", got)
	}
	return nil
}

// pause waits.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
