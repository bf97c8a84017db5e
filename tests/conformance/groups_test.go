//go:build conformance

package conformance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/cauce-stream/cauce/tests/conformance/internal/cache"
	"github.com/cauce-stream/cauce/tests/conformance/internal/client"
	"github.com/cauce-stream/cauce/tests/conformance/internal/group"
	"github.com/cauce-stream/cauce/tests/conformance/internal/member"
	"github.com/cauce-stream/cauce/tests/conformance/internal/server"
)

const (
	groupPartitions = 4
	// stepTimeout bounds each step of a scenario. Sessions that must not expire in it are longer.
	stepTimeout   = 40 * time.Second
	longSessionMs = 60_000
	// crashSessionMs is the session timeout of members that are killed.
	crashSessionMs = 6_000
	// parallelGroups is how many groups run at a time: each has up to three processes, some of them JVMs.
	parallelGroups = 4
)

// groupClient is a client that consumes in groups, with what it has. README.md lists the same.
type groupClient struct {
	name     string
	classic  []string // assignors of the classic protocol
	consumer bool     // has the protocol of KIP-848
	static   bool     // has group.instance.id
	sticks   bool     // ends with its instance id still taken in the consumer protocol, so that Kafka refuses its next process
	seek     bool     // can seek while it is a member
	late     bool     // tells what it owns by way of another process
	program  func(*testing.T) (env []string, program string, args []string)
}

func groupClients(t *testing.T) []groupClient {
	kcat, err := cache.Debian(t.Context(), "kcat", "kcat")
	if err != nil {
		t.Fatal(err)
	}
	return []groupClient{
		{name: "franz-go", classic: []string{"range", "cooperative-sticky"}, consumer: true, static: true, sticks: true, seek: true, program: goMember("franz-go", "")},
		{name: "java", classic: []string{"range", "cooperative-sticky"}, consumer: true, static: true, seek: true, program: javaMember("java")},
		{name: "java-2.1", classic: []string{"range"}, seek: true, program: javaMember("java2")},
		{name: "confluent-kafka", classic: []string{"range", "cooperative-sticky"}, consumer: true, static: true, seek: true, program: pythonMember("confluent-kafka")},
		{name: "kafka-python", classic: []string{"range", "cooperative-sticky"}, static: true, seek: true, program: pythonMember("kafka-python")},
		{name: "kafkajs", classic: []string{"-"}, seek: true, program: nodeMember},
		{name: "sarama", classic: []string{"range"}, static: true, program: goMember("sarama", "")},
		{name: "kafka-go", classic: []string{"range"}, program: goMember("kafka-go", "")},
		{name: "kcat", classic: []string{"range"}, static: true, late: true, program: goMember("kcat", kcat)},
	}
}

// TestGroups lets every client consume in groups. The server has short timeouts, so that crashes are noticed soon;
// TestGroupsByDefault runs on a server as it comes.
func TestGroups(t *testing.T) {
	s := ownServer(t,
		"group.initial.rebalance.delay.ms=0",
		"group.consumer.min.session.timeout.ms=1000",
		"group.consumer.min.heartbeat.interval.ms=100", "group.consumer.heartbeat.interval.ms=500",
	)
	slots := make(chan struct{}, parallelGroups)
	for _, c := range groupClients(t) {
		for _, strategy := range c.classic {
			runGroup(t, slots, s, c, "classic", strategy)
		}
		if c.consumer {
			runGroup(t, slots, s, c, "consumer", "-")
		}
	}
}

// ownServer starts a server for one test, with settings of its own.
func ownServer(t *testing.T, set ...string) *server.Server {
	t.Helper()
	if os.Getenv("CAUCE_BOOTSTRAP") != "" {
		t.Skip("needs a server that the suite starts, with settings of its own")
	}
	s, err := server.Start(t.Context(), root, absClientDir(t, "java"), under.Kafka, server.Options{Set: set})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestGroupsByDefault runs two clients with the server's own timeouts and rebalance delay.
func TestGroupsByDefault(t *testing.T) {
	for _, c := range groupClients(t)[:2] {
		t.Run(c.name, func(t *testing.T) { newScenario(t, under, c, "classic", "cooperative-sticky").lifetime() })
	}
}

func runGroup(t *testing.T, slots chan struct{}, s *server.Server, c groupClient, protocol, strategy string) {
	name := c.name + "/" + protocol + "/" + strategy
	run := func(part string, scenario func(*scenario)) {
		t.Run(name+"/"+part, func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			scenario(newScenario(t, s, c, protocol, strategy))
		})
	}
	run("lifetime", (*scenario).lifetime)
	if c.static && !(c.sticks && protocol == "consumer") {
		run("static", (*scenario).restarts)
	}
}

// scenario is one group in a test: its members, and how far its topic was written.
type scenario struct {
	*testing.T
	server             *server.Server
	client             groupClient
	protocol, strategy string

	topic string
	franz *client.Franz
	group *group.Group
	end   int64 // the end offset of every partition
}

func newScenario(t *testing.T, s *server.Server, c groupClient, protocol, strategy string) *scenario {
	t.Helper()
	g, err := group.New(c.late)
	if err != nil {
		t.Fatal(err)
	}
	x := &scenario{T: t, server: s, client: c, protocol: protocol, strategy: strategy, franz: client.NewFranz(s.Bootstrap), group: g}
	x.topic = fmt.Sprintf("groups-%s-%s-%s-%d", run, c.name, protocol, time.Now().UnixNano())
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	x.step("create the topic", func(ctx context.Context) error {
		if err := x.franz.CreateTopic(ctx, x.topic, groupPartitions); err != nil {
			return err
		}
		return x.franz.AwaitLeaders(ctx, x.topic, groupPartitions)
	})
	return x
}

// lifetime has members come, crash, and go: whatever is written is read, each partition has one owner at a time, and who
// takes over begins where was committed.
func (x *scenario) lifetime() {
	a := x.start("A", "-", longSessionMs)
	x.write(50)
	x.owned(a)
	x.readAll()

	x.sessions(crashSessionMs)
	b := x.start("B", "-", crashSessionMs)
	x.owned(a, b)
	if (x.protocol == "consumer" || x.strategy == "cooperative-sticky") && len(a.Revoked()) > groupPartitions/2 {
		x.Errorf("A kept %v and gave up %v: a cooperative member gives up what it does not keep, once", a.Owned(), a.Revoked())
	}
	x.write(50)
	x.readAll()
	x.commit(a, b)

	x.step("kill B", b.Kill)
	x.write(20)
	x.owned(a)
	x.readAll()
	x.sessions(longSessionMs)
	x.seek(a)
	x.commit(a)
	x.step("A leaves", a.Leave)

	committed := x.end
	x.write(20)
	c := x.start("C", "-", longSessionMs)
	x.owned(c)
	x.readAll()
	for p, first := range c.First() {
		if first != committed {
			x.Errorf("partition %d: the next member began at %d, committed was %d", p, first, committed)
		}
	}
	d := x.start("D", "-", longSessionMs)
	x.owned(c, d)
	x.step("D leaves", d.Leave)
	x.owned(c) // long before a session ends
	x.step("C leaves", c.Leave)
}

// restarts has static members end without a word and come again (KIP-345): nobody else notices.
func (x *scenario) restarts() {
	a := x.start("A", "one", longSessionMs)
	x.owned(a)
	b := x.start("B", "two", longSessionMs)
	x.owned(a, b)
	x.write(20)
	x.readAll()
	x.commit(a, b)

	before, was := a.Rebalances(), b.Owned()
	x.away(b)
	b = x.start("B2", "two", longSessionMs)
	x.owned(a, b)
	if now := b.Owned(); !slices.Equal(now, was) {
		x.Errorf("B had %v before its restart, and %v after", was, now)
	}
	x.write(20)
	x.readAll()
	if n := a.Rebalances() - before; n != 0 {
		x.Errorf("A saw %d changes of its partitions while B came again", n)
	}

	before, was = b.Rebalances(), a.Owned()
	x.away(a)
	a = x.start("A2", "one", longSessionMs)
	x.owned(a, b)
	if now := a.Owned(); !slices.Equal(now, was) {
		x.Errorf("A had %v before its restart, and %v after", was, now)
	}
	x.write(20)
	x.readAll()
	if n := b.Rebalances() - before; n != 0 {
		x.Errorf("B saw %d changes of its partitions while A, who led the group, came again", n)
	}
}

// away ends a static member without its leaving the group. Of the classic protocol that takes no goodbye; of the consumer
// protocol a member says that it will be back (epoch -2), since another process is refused its instance id otherwise.
func (x *scenario) away(m *group.Member) {
	x.Helper()
	if x.protocol == "consumer" {
		x.step("stop "+m.Name(), m.Leave)
		return
	}
	x.step("kill "+m.Name(), m.Kill)
}

func (x *scenario) step(what string, do func(context.Context) error) {
	x.Helper()
	ctx, cancel := context.WithTimeout(x.Context(), stepTimeout)
	defer cancel()
	if err := do(ctx); err != nil {
		x.Fatalf("%s: %v", what, err)
	}
}

func (x *scenario) start(name, instance string, sessionMs int) *group.Member {
	x.Helper()
	env, program, args := x.client.program(x.T)
	m, err := x.group.Start(member.Spec{
		Bootstrap: x.server.Bootstrap, Group: "g-" + x.topic, Topic: x.topic, Name: name,
		Protocol: x.protocol, Strategy: x.strategy, Instance: instance, SessionMs: sessionMs,
	}, env, program, args...)
	if err != nil {
		x.Fatal(err)
	}
	return m
}

// sessions sets the session timeout of a group of the consumer protocol: there it is the group's, not a member's.
func (x *scenario) sessions(ms int) {
	x.Helper()
	if x.protocol != "consumer" {
		return
	}
	x.step("set the session timeout", func(ctx context.Context) error {
		return x.franz.SetGroupConfig(ctx, "g-"+x.topic, "consumer.session.timeout.ms", strconv.Itoa(ms))
	})
}

// write adds so many records to every partition.
func (x *scenario) write(records int) {
	x.Helper()
	x.step("write", func(ctx context.Context) error {
		return x.franz.Produce(ctx, client.Job{Topic: x.topic, Partitions: groupPartitions, Records: records * groupPartitions, Codec: "none", Acks: "all"})
	})
	x.end += int64(records)
}

// owned waits until the members own all partitions in equal shares.
func (x *scenario) owned(members ...*group.Member) {
	x.Helper()
	x.step("owners", func(ctx context.Context) error {
		return x.group.AwaitOwners(ctx, groupPartitions, groupPartitions/len(members), members...)
	})
}

func (x *scenario) readAll() {
	x.Helper()
	x.step("read", func(ctx context.Context) error { return x.group.AwaitRead(ctx, groupPartitions, x.end) })
}

// seek lets a member read all of partition 0 once more.
func (x *scenario) seek(m *group.Member) {
	x.Helper()
	if !x.client.seek {
		return
	}
	first, last := x.group.Times(0, 0), x.group.Times(0, x.end-1)
	x.step("seek", func(ctx context.Context) error {
		if err := m.Seek(ctx, 0, 0); err != nil {
			return err
		}
		if err := x.group.AwaitAgain(ctx, 0, 0, first+1); err != nil {
			return err
		}
		return x.group.AwaitAgain(ctx, 0, x.end-1, last+1)
	})
}

// commit lets the members commit until the group's offsets are the ends of the partitions: after a rebalance, a member may
// first have to read again what was not committed.
func (x *scenario) commit(members ...*group.Member) {
	x.Helper()
	x.step("commit", func(ctx context.Context) error {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			for _, m := range members {
				if err := m.Commit(ctx); err != nil {
					return err
				}
			}
			offsets, err := x.franz.Committed(ctx, "g-"+x.topic, x.topic)
			if err != nil {
				return err
			}
			if !slices.ContainsFunc([]int32{0, 1, 2, 3}, func(p int32) bool { return offsets[p] != x.end }) {
				return nil
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return fmt.Errorf("committed %v, all was read to %d: %w", offsets, x.end, ctx.Err())
			}
		}
	})
}

func goMember(name, program string) func(*testing.T) ([]string, string, []string) {
	return func(t *testing.T) ([]string, string, []string) {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		return []string{memberClient + "=" + name, memberProgram + "=" + program}, self, nil
	}
}

func javaMember(dir string) func(*testing.T) ([]string, string, []string) {
	return func(t *testing.T) ([]string, string, []string) {
		return nil, "java", javaProgram(t, dir, "java/Member.java", smallJVM...)
	}
}

// smallJVM are flags for one of many JVMs that live for seconds.
var smallJVM = []string{"-Xmx128m", "-XX:TieredStopAtLevel=1"}

func pythonMember(name string) func(*testing.T) ([]string, string, []string) {
	return func(t *testing.T) ([]string, string, []string) {
		dir := absClientDir(t, "python")
		python, err := cache.Python(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		return nil, python, []string{filepath.Join(dir, "member.py"), name}
	}
}

func nodeMember(t *testing.T) ([]string, string, []string) {
	dir := absClientDir(t, "node")
	modules, err := cache.Npm(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return nil, "node", []string{filepath.Join(dir, "member.js"), modules}
}
