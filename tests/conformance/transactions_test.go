//go:build conformance

package conformance

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cauce-stream/cauce/tests/conformance/internal/cache"
	"github.com/cauce-stream/cauce/tests/conformance/internal/client"
	"github.com/cauce-stream/cauce/tests/conformance/internal/server"
	"github.com/cauce-stream/cauce/tests/conformance/internal/transactor"
)

const (
	txnPartitions = 3
	// longTimeoutMs is a transaction timeout that no scenario outlasts, and shortTimeoutMs one that passes in it.
	longTimeoutMs  = "60000"
	shortTimeoutMs = "1000"
)

// txnClient is a client with transactional producers.
type txnClient struct {
	name      string
	protocols []string // the group protocols of its consumer
	program   func(*testing.T) (program string, args []string)

	// What it makes of the server's answers: to a commit after another producer of its id began, to a write then, and to a
	// commit after its transaction timed out.
	fencedCommit, fencedSend, lateCommit string
	// What it makes of offsets of a member that left its group; "" when it names no member (KIP-447).
	strangersOffsets string
}

// anyError is wanted where it is up to the client what it calls an error.
const anyError = "any error"

func txnClients() []txnClient {
	return []txnClient{
		{
			name: "java", protocols: []string{"classic", "consumer"}, program: javaTransactor("java"),
			fencedCommit: "ProducerFencedException", fencedSend: "InvalidProducerEpochException", lateCommit: "InvalidTxnStateException",
			strangersOffsets: "CommitFailedException",
		},
		{
			name: "java-2.1", protocols: []string{"classic"}, program: javaTransactor("java2"),
			fencedCommit: "ProducerFencedException", fencedSend: "ProducerFencedException", lateCommit: "ProducerFencedException",
		},
		{
			name: "confluent-kafka", protocols: []string{"classic", "consumer"}, program: pythonTransactor("confluent-kafka"),
			fencedCommit: "_FENCED", fencedSend: "_FENCED", lateCommit: "_FENCED", strangersOffsets: "UNKNOWN_MEMBER_ID",
		},
		{
			name: "kafka-python", protocols: []string{"classic"}, program: pythonTransactor("kafka-python"),
			fencedCommit: "ProducerFencedError", fencedSend: "InvalidProducerEpochError", lateCommit: "ProducerFencedError",
			strangersOffsets: "CommitFailedError",
		},
		{
			name: "kafkajs", protocols: []string{"classic"}, program: nodeTransactor,
			fencedCommit: "INVALID_PRODUCER_EPOCH", fencedSend: "INVALID_PRODUCER_EPOCH", lateCommit: "INVALID_PRODUCER_EPOCH",
		},
	}
}

// TestTransactions lets the clients' transactional producers commit, abort, be fenced, be late and be killed, and every client read
// what its own have committed. Kafka Streams counts words.
func TestTransactions(t *testing.T) {
	s := ownServer(t,
		"group.initial.rebalance.delay.ms=0",
		"group.consumer.min.session.timeout.ms=1000", "group.consumer.session.timeout.ms=3000", "group.min.session.timeout.ms=1000",
		"group.consumer.min.heartbeat.interval.ms=100", "group.consumer.heartbeat.interval.ms=500",
		"transaction.abort.timed.out.transaction.cleanup.interval.ms=200",
	)
	t.Run("streams", func(t *testing.T) {
		t.Parallel()
		countWords(t, s)
	})
	for _, c := range txnClients() {
		for _, protocol := range c.protocols {
			t.Run(c.name+"/"+protocol, func(t *testing.T) {
				t.Parallel()
				x := newTxnScenario(t, s, c, protocol, "copy")
				x.copyInput()
			})
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			x := newTxnScenario(t, s, c, c.protocols[0], "out")
			x.outcomes()
			x.fenced()
			x.late()
			x.read()
			x.readAll()
			for _, protocol := range c.protocols {
				x.offsets(protocol)
			}
		})
	}
}

// txnScenario is a program with a client's producers, and a topic that they write to.
type txnScenario struct {
	*testing.T
	server   *server.Server
	client   txnClient
	franz    *client.Franz
	protocol string
	topic    string
	program  transactor.Transactor
	want     [txnPartitions][]string // the values that were committed
	all      [txnPartitions][]string // those that were written
}

func newTxnScenario(t *testing.T, s *server.Server, c txnClient, protocol, topic string) *txnScenario {
	t.Helper()
	x := &txnScenario{T: t, server: s, client: c, protocol: protocol, franz: client.NewFranz(s.Bootstrap)}
	x.topic = x.createTopic(topic)
	x.restart()
	t.Cleanup(func() { x.program.Kill() })
	return x
}

func (x *txnScenario) createTopic(name string) string {
	x.Helper()
	topic := fmt.Sprintf("%s-%s-%s-%s", name, run, x.client.name, x.protocol)
	x.step("create "+topic, func(ctx context.Context) error {
		if err := x.franz.CreateTopic(ctx, topic, txnPartitions); err != nil {
			return err
		}
		return x.franz.AwaitLeaders(ctx, topic, txnPartitions)
	})
	return topic
}

// outcomes commits and aborts; what is open is kept from readers of what is committed.
func (x *txnScenario) outcomes() {
	x.do("producer", "p", x.topic+"-p", longTimeoutMs)
	for _, round := range []struct{ value, end string }{{"a", "commit"}, {"b", "abort"}, {"c", "commit"}} {
		x.do("begin", "p")
		x.write("p", round.value)
		if stable, end := x.ends(); maps.Equal(stable, end) {
			x.Errorf("stable offsets %v are the ends while %s is open", stable, round.value)
		}
		x.do(round.end, "p")
		if round.end == "commit" {
			x.committed(round.value)
		}
	}
}

// write writes three records with a value to each partition.
func (x *txnScenario) write(producer, value string) {
	x.Helper()
	for p := range txnPartitions {
		x.do("send", producer, x.topic, fmt.Sprint(p), value+"0", value+"1", value+"2")
		x.all[p] = append(x.all[p], value+"0", value+"1", value+"2")
	}
}

func (x *txnScenario) committed(value string) {
	for p := range x.want {
		x.want[p] = append(x.want[p], value+"0", value+"1", value+"2")
	}
}

// fenced has producers go on after others of their transactional ids began: one with a commit, one with a write.
func (x *txnScenario) fenced() {
	for _, zombie := range []string{"commit", "send"} {
		id := x.topic + "-" + zombie
		x.do("producer", zombie, id, longTimeoutMs)
		x.do("begin", zombie)
		x.write(zombie, "zombie")
		x.do("producer", "successor", id, longTimeoutMs)
		x.do("begin", "successor")
		if zombie == "commit" {
			x.refused(x.client.fencedCommit, "commit", zombie)
		} else {
			x.refused(x.client.fencedSend, "send", zombie, x.topic, "0", "late")
			x.refused(anyError, "commit", zombie)
		}
		x.write("successor", zombie)
		x.do("commit", "successor")
		x.committed(zombie)
	}
}

// late lets the time of a transaction pass: readers get past it, its producer cannot commit it, and its id can be used again.
func (x *txnScenario) late() {
	id := x.topic + "-late"
	x.do("producer", "late", id, shortTimeoutMs)
	x.do("begin", "late")
	x.write("late", "late")
	x.await("the end of a transaction whose time is over", func(context.Context) (bool, error) {
		stable, end := x.ends()
		return maps.Equal(stable, end), nil
	})
	x.refused(x.client.lateCommit, "commit", "late")
	x.do("producer", "again", id, longTimeoutMs)
	x.do("begin", "again")
	x.write("again", "again")
	x.do("commit", "again")
	x.committed("again")
}

// offsets commits a group's offsets with a transaction: they are the group's when that is committed, and those of a member that
// has left are refused.
func (x *txnScenario) offsets(protocol string) {
	group := "g-" + x.topic + "-" + protocol
	x.do("producer", "o", group+"-o", longTimeoutMs)
	x.do("consumer", "c", group, x.topic, protocol)
	x.poll("c")
	x.do("begin", "o")
	x.do("offsets", "o", "c")
	x.do("abort", "o")
	if n := x.groupOffsets(group, x.topic); n != 0 {
		x.Errorf("%s: %d records are committed by an aborted transaction", protocol, n)
	}
	x.do("begin", "o")
	x.do("offsets", "o", "c")
	x.do("commit", "o")
	before := x.groupOffsets(group, x.topic)
	if before == 0 {
		x.Errorf("%s: nothing is committed", protocol)
	}
	x.poll("c")
	x.do("close", "c")
	x.do("begin", "o")
	x.refused(x.client.strangersOffsets, "offsets", "o", "c")
	if x.client.strangersOffsets != "" {
		x.do("abort", "o")
		if now := x.groupOffsets(group, x.topic); now != before {
			x.Errorf("%s: offsets sum up to %d after those of a member that had left, %d before", protocol, now, before)
		}
	}
}

// groupOffsets is the sum of the offsets that a group has committed of a topic.
func (x *txnScenario) groupOffsets(group, topic string) (total int64) {
	x.Helper()
	x.step("committed offsets", func(ctx context.Context) error {
		committed, err := x.franz.StableCommitted(ctx, group, topic, txnPartitions)
		for _, offset := range committed {
			total += max(offset, 0)
		}
		return err
	})
	return total
}

// copyInput copies a topic in transactions with the offsets in them, by a program that is killed between the last write and the
// commit, and while it commits: every record arrives once, in order.
func (x *txnScenario) copyInput() {
	const records = 60
	input := x.createTopic("in")
	x.step("write the input", func(ctx context.Context) error {
		return x.franz.ProduceValues(ctx, input, txnPartitions, numbers(records))
	})
	for i, value := range numbers(records) {
		x.want[i%txnPartitions] = append(x.want[i%txnPartitions], value)
	}
	group := "g-" + input
	x.open(group, input)
	x.copyRound("commit")
	x.copyRound("")
	x.restart()

	x.open(group, input)
	x.copyRound("commit and be killed")
	x.restart()

	x.open(group, input)
	for x.groupOffsets(group, input) < records {
		x.copyRound("commit")
	}
	x.read()
}

// open makes a producer, which ends what one before has begun, and a consumer of the committed offsets from then on.
func (x *txnScenario) open(group, input string) {
	x.do("producer", "p", "copy-"+x.topic, longTimeoutMs)
	x.do("begin", "p") // some clients ask for their epoch only now
	x.do("consumer", "c", group, input, x.protocol)
}

// copyRound copies what the next poll brings in the open transaction, ends it as it is told, and begins another one.
func (x *txnScenario) copyRound(end string) {
	x.Helper()
	for _, r := range x.poll("c") {
		x.do("send", "p", x.topic, fmt.Sprint(r.Partition), r.Value)
	}
	x.do("offsets", "p", "c")
	switch end {
	case "commit":
		x.do("commit", "p")
		x.do("begin", "p")
	case "commit and be killed":
		if err := x.program.Tell("commit", "p"); err != nil {
			x.Fatal(err)
		}
		<-time.After(rand.N(10 * time.Millisecond)) // a commit takes about as long
	}
}

// restart kills the program, if there is one, and starts it again.
func (x *txnScenario) restart() {
	x.Helper()
	if x.program.Program != nil {
		x.program.Kill()
	}
	program, args := x.client.program(x.T)
	var err error
	if x.program, err = transactor.Start(x.client.name, program, append(args, x.server.Bootstrap)...); err != nil {
		x.Fatal(err)
	}
}

// read ends the topic and has the client, and franz-go, read it: what was committed, in order.
func (x *txnScenario) read() {
	x.Helper()
	x.step("end the topic", func(ctx context.Context) error {
		return x.franz.ProduceValues(ctx, x.topic, txnPartitions, slices.Repeat([]string{transactor.End}, txnPartitions))
	})
	x.step("read", func(ctx context.Context) error {
		got, err := x.program.Read(ctx, x.topic, txnPartitions, "committed")
		if err != nil {
			return err
		}
		again, err := x.franz.ReadCommitted(ctx, x.topic, txnPartitions, transactor.End)
		if err != nil {
			return err
		}
		for p := range x.want {
			if !slices.Equal(got[p], x.want[p]) || !slices.Equal(again[p], x.want[p]) {
				x.Errorf("partition %d: committed are %v, by franz-go %v; want %v", p, got[p], again[p], x.want[p])
			}
		}
		return nil
	})
}

// readAll has the client read what was aborted too.
func (x *txnScenario) readAll() {
	x.Helper()
	x.step("read all", func(ctx context.Context) error {
		got, err := x.program.Read(ctx, x.topic, txnPartitions, "uncommitted")
		for p := range got {
			if !slices.Equal(got[p], x.all[p]) {
				x.Errorf("partition %d: written are %v, want %v", p, got[p], x.all[p])
			}
		}
		return err
	})
}

func (x *txnScenario) do(words ...string) {
	x.Helper()
	x.step(fmt.Sprint(words), func(ctx context.Context) error {
		_, err := x.program.Call(ctx, words...)
		return err
	})
}

// refused demands that a command fails with an error, by the name that the client gives it, or succeeds if that is "".
func (x *txnScenario) refused(want string, words ...string) {
	x.Helper()
	x.step(fmt.Sprint(words), func(ctx context.Context) error {
		_, err := x.program.Call(ctx, words...)
		got := ""
		if err != nil {
			if got, err = transactor.Refused(err); err != nil {
				return err
			}
		}
		if got != want && (want != anyError || got == "") {
			x.Errorf("%v was answered %q, want %q", words, got, want)
		}
		return nil
	})
}

func (x *txnScenario) poll(consumer string) (records []transactor.Record) {
	x.Helper()
	x.step("poll "+consumer, func(ctx context.Context) (err error) {
		records, err = x.program.Poll(ctx, consumer)
		return err
	})
	return records
}

// ends are the last stable and the end offsets of the topic.
func (x *txnScenario) ends() (stable, end map[int32]int64) {
	x.Helper()
	x.step("list offsets", func(ctx context.Context) (err error) {
		if stable, err = x.franz.StableOffsets(ctx, x.topic); err != nil {
			return err
		}
		end, err = x.franz.EndOffsets(ctx, x.topic)
		return err
	})
	return stable, end
}

func (x *txnScenario) await(what string, condition func(context.Context) (bool, error)) {
	x.Helper()
	x.step(what, func(ctx context.Context) error {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			ok, err := condition(ctx)
			if ok || err != nil {
				return err
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
}

func (x *txnScenario) step(what string, do func(context.Context) error) {
	x.Helper()
	ctx, cancel := context.WithTimeout(x.Context(), stepTimeout)
	defer cancel()
	if err := do(ctx); err != nil {
		x.Fatalf("%s: %v", what, err)
	}
}

func numbers(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint(i)
	}
	return out
}

func javaTransactor(dir string) func(*testing.T) (string, []string) {
	return func(t *testing.T) (string, []string) {
		return "java", javaProgram(t, dir, "java/Transactor.java", smallJVM...)
	}
}

func pythonTransactor(name string) func(*testing.T) (string, []string) {
	return func(t *testing.T) (string, []string) {
		dir := absClientDir(t, "python")
		python, err := cache.Python(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		return python, []string{filepath.Join(dir, "transactor.py"), name}
	}
}

func nodeTransactor(t *testing.T) (string, []string) {
	dir := absClientDir(t, "node")
	modules, err := cache.Npm(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return "node", []string{filepath.Join(dir, "transactor.js"), modules}
}
