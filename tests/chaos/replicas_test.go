//go:build chaos

package chaos

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/libs/testport"
	"github.com/cauce-stream/cauce/tests/audit"
	"github.com/cauce-stream/cauce/tests/chaos/internal/schedule"
	"github.com/cauce-stream/cauce/tests/localcluster"
	"github.com/cauce-stream/cauce/tests/retry"
)

var (
	seeds  = flag.Int("seeds", 3, "how many schedules of faults replicas go through, from -seed on")
	length = flag.Duration("length", 40*time.Second, "of a schedule of faults")
	clocks = flag.String("clocks", "", "folder of programs that ./clock/build has made: clocks jump, too")
	keep   = flag.String("keep", "", "folder that gets the logs and partitions of clusters that failed")
)

// convergeTimeout bounds how long a cluster of which nothing is broken any more takes to be whole.
const convergeTimeout = 90 * time.Second

// TestReplicasSurviveFaults breaks three controllers and three brokers in the ways that a seed draws, while producers and
// consumers go on. Afterwards the cluster has to become whole by itself, and package audit holds what clients were told
// against what the replicas have.
//
// -seed N begins with schedule N, and repeats it with -seeds 1.
func TestReplicasSurviveFaults(t *testing.T) { forSeeds(t, surviveFaults) }

// forSeeds goes through the schedules that the flags say.
func forSeeds(t *testing.T, survive func(t *testing.T, seed uint64)) {
	first := *seed
	if first == 0 {
		first = rand.Uint64N(1_000_000_000) // short enough to be told to somebody
	}
	for n := range uint64(*seeds) {
		// A test binary that is cut off by its -timeout leaves the cluster running.
		if end, ok := t.Deadline(); ok && time.Until(end) < *length+convergeTimeout {
			t.Logf("no time is left for seeds from %d on", first+n)
			return
		}
		t.Run(fmt.Sprint("seed ", first+n), func(t *testing.T) {
			survive(t, first+n)
			if t.Failed() {
				name, _, _ := strings.Cut(t.Name(), "/")
				t.Logf("to repeat: go test -tags chaos ./chaos -run %s -seeds 1 -seed %d -length %v", name, first+n, *length)
			}
		})
	}
}

func surviveFaults(t *testing.T, seed uint64) {
	if *clocks != "" {
		t.Setenv("CAUCE_BINARY", filepath.Join(*clocks, "cauce"))
	}
	faults, missing := possibleFaults()
	for _, m := range missing {
		t.Log(m)
	}
	c, disks := startReplicated(t, len(missing) == 0, "--groupcoords", "0", "--txncoords", "1")
	seeds := bootstrap(t, c)
	client, err := kgo.NewClient(impatient(seeds)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	r := &replicated{t: t, cluster: c, admin: kadm.NewClient(client)}
	r.createTopic(ordersTopic, ordersPartitions)

	var partitions []partition
	for p := range int32(ordersPartitions) {
		partitions = append(partitions, partition{ordersTopic, p})
	}
	steps := schedule.Draw(seed, schedule.Plan{Faults: faults, Length: *length, Brokers: 3, Partitions: ordersPartitions})
	for _, s := range steps {
		t.Log("planned: ", s)
	}
	l := startLoad(t, seeds, rand.New(rand.NewPCG(seed, 1)))
	b := &breaker{t: t, cluster: c, client: client, admin: r.admin, brokers: ids(t, c, "broker"), controllers: ids(t, c, "controller"),
		partitions: partitions, disks: disks}
	b.run(steps)
	healed := time.Now()
	r.converge(ordersTopic)
	t.Logf("whole again after %v", time.Since(healed).Round(time.Millisecond))
	l.endWrites()
	ends := r.ends()
	ctx, cancel := context.WithTimeout(t.Context(), convergeTimeout)
	defer cancel()
	if err := l.endReads(ctx, ends); err != nil {
		t.Error(err)
	}
	r.check(l, ends)
}

// startReplicated brings the cluster up, each broker with a disk of its own where there can be some.
func startReplicated(t *testing.T, withDisks bool, flags ...string) (*localcluster.Cluster, map[int32]*disk) {
	t.Helper()
	dir := t.TempDir()
	disks := map[int32]*disk{}
	for id := int32(1); id <= 3 && withDisks; id++ {
		disks[id] = newDisk(t, filepath.Join(dir, strconv.Itoa(int(id)), "data"))
	}
	for _, id := range []int32{1, 2, 3, 101, 102, 103, 201, 202, 301, 302} {
		if *clocks != "" {
			if err := errors.Join(os.MkdirAll(filepath.Join(dir, strconv.Itoa(int(id))), 0o755), setClock(dir, id, 0)); err != nil {
				t.Fatal(err)
			}
		}
	}
	c, err := localcluster.Up(t.Context(), dir, append([]string{"--controllers", "3", "--brokers", "3",
		"--base-port", strconv.Itoa(testport.Range(t, 40)), "--set", "replica.lag.time.max.ms=3000", "--set", "broker.session.timeout.ms=4000",
		"--set", "min.insync.replicas=2", "--set", "log.dirs=" + logDirs}, flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Down(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			show(t, c)
		}
	})
	return c, disks
}

// show prints the ends of the nodes' logs, and keeps what may tell more.
func show(t *testing.T, c *localcluster.Cluster) {
	nodes, err := c.Nodes(context.Background())
	if err != nil {
		t.Error(err)
	}
	for _, n := range nodes {
		text, err := os.ReadFile(n.Log)
		if err != nil {
			t.Error(err)
		}
		t.Logf("node %d said:\n%s", n.ID, text[max(0, len(text)-4<<10):])
	}
	if *keep == "" {
		return
	}
	folder := filepath.Join(*keep, strings.NewReplacer("/", "-", " ", "-").Replace(t.Name()))
	if err := errors.Join(os.MkdirAll(folder, 0o755), run("cp", "-r", "--sparse=always", c.Dir, folder)); err != nil {
		t.Error(err)
	}
	t.Logf("kept in %s", folder)
}

func bootstrap(t *testing.T, c *localcluster.Cluster) []string {
	t.Helper()
	var all []string
	for _, n := range nodesOf(t, c, "broker") {
		all = append(all, n.Bootstrap)
	}
	return all
}

func ids(t *testing.T, c *localcluster.Cluster, role string) []int32 {
	t.Helper()
	var all []int32
	for _, n := range nodesOf(t, c, role) {
		all = append(all, n.ID)
	}
	return all
}

func nodesOf(t *testing.T, c *localcluster.Cluster, role string) []localcluster.Node {
	t.Helper()
	nodes, err := c.Of(t.Context(), role)
	if err != nil {
		t.Fatal(err)
	}
	return nodes
}

// replicated is a cluster with a topic of three replicas.
type replicated struct {
	t       *testing.T
	cluster *localcluster.Cluster
	admin   *kadm.Client
}

func (r *replicated) createTopic(name string, partitions int32) {
	r.t.Helper()
	configs := map[string]string{
		"min.insync.replicas": "2",
		"segment.bytes":       "1048576", // so that faults meet rolls
		// A leader whose clock is behind would refuse what comes from the future.
		"message.timestamp.after.max.ms": strconv.Itoa(math.MaxInt64),
	}
	values := map[string]*string{}
	for key, value := range configs {
		values[key] = &value
	}
	r.until("creating the topic", func(ctx context.Context) error {
		created, err := r.admin.CreateTopic(ctx, partitions, 3, values, name)
		return cmp.Or(err, created.Err)
	})
}

// until tries until it works, or fails the test.
func (r *replicated) until(what string, try func(ctx context.Context) error) {
	r.t.Helper()
	if err := retry.Until(r.t.Context(), convergeTimeout, try); err != nil {
		r.t.Fatalf("%s: %v", what, err)
	}
}

// converge waits until every partition of topics has a leader and all replicas in sync.
func (r *replicated) converge(topics ...string) {
	r.t.Helper()
	r.until("the cluster becomes whole", func(ctx context.Context) error {
		listed, err := r.admin.ListTopicsWithInternal(ctx, topics...)
		if err != nil {
			return err
		}
		if err := r.movesEnd(ctx, listed); err != nil {
			return err
		}
		for _, topic := range topics {
			if err := listed[topic].Err; err != nil || len(listed[topic].Partitions) == 0 {
				return fmt.Errorf("%s: it knows %d partitions (%w)", topic, len(listed[topic].Partitions), err)
			}
			for _, p := range listed[topic].Partitions.Sorted() {
				if p.Err != nil || p.Leader < 0 || len(p.ISR) != 3 {
					return fmt.Errorf("%s-%d is led by %d, in sync are %v (%v)", topic, p.Partition, p.Leader, p.ISR, p.Err)
				}
			}
		}
		return nil
	})
}

// ends are the high watermarks, when nobody writes any more.
func (r *replicated) ends() (ends [ordersPartitions]int64) {
	r.t.Helper()
	r.until("the ends of the partitions", func(ctx context.Context) error {
		listed, err := r.admin.ListEndOffsets(ctx, ordersTopic)
		if err = cmp.Or(err, listed.Error()); err != nil {
			return err
		}
		for p, offset := range listed[ordersTopic] {
			ends[p] = offset.Offset
		}
		return nil
	})
	return ends
}

// check waits until the replicas have all, and audits every partition.
func (r *replicated) check(l *load, ends [ordersPartitions]int64) {
	r.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.failures {
		r.t.Error(f)
	}
	for _, refusal := range l.refusals {
		r.t.Log(refusal)
	}
	total, longest := 0, time.Duration(0)
	for p := range l.histories {
		partition := audit.Partition{Topic: ordersTopic, ID: int32(p), Producers: l.histories[p], HighWatermark: ends[p]}
		for _, v := range l.views[p] {
			partition.Views = append(partition.Views, *v)
		}
		r.until(fmt.Sprintf("the replicas of partition %d have the same", p), func(context.Context) error {
			partition.Replicas = r.replicas(ordersTopic, int32(p))
			for _, replica := range partition.Replicas {
				if len(replica.Data) != len(partition.Replicas[0].Data) {
					return fmt.Errorf("nodes %d and %d have %d and %d bytes", partition.Replicas[0].Node, replica.Node,
						len(partition.Replicas[0].Data), len(replica.Data))
				}
			}
			return nil
		})
		for _, f := range audit.Check(partition) {
			r.t.Errorf("partition %d: %s, %d times:\n\t%s", p, f.Kind, f.Count, strings.Join(f.Examples, "\n\t"))
		}
		total += l.acked[p].count
		longest = max(longest, l.acked[p].longest)
	}
	if total == 0 {
		r.t.Error("nothing was acknowledged")
	}
	r.t.Logf("%d records acknowledged, %d consumers; the longest that a partition acknowledged nothing is %v", total, len(l.views[0]), longest.Round(time.Millisecond))
}

// replicas reads a partition from the brokers' disks.
func (r *replicated) replicas(topic string, p int32) []audit.Replica {
	r.t.Helper()
	var all []audit.Replica
	for _, id := range ids(r.t, r.cluster, "broker") {
		folder := filepath.Join(r.cluster.Dir, strconv.Itoa(int(id)))
		var names []string
		err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
			if filepath.Base(filepath.Dir(path)) == fmt.Sprint(topic, "-", p) && filepath.Ext(path) == ".log" {
				names = append(names, path)
			}
			return err
		})
		if err != nil {
			r.t.Fatal(err)
		}
		slices.Sort(names)
		replica := audit.Replica{Node: id}
		for _, name := range names {
			content, err := os.ReadFile(name)
			if err != nil {
				r.t.Fatal(err)
			}
			replica.Data = append(replica.Data, content...)
		}
		all = append(all, replica)
	}
	return all
}
