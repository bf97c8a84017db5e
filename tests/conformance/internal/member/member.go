// Package member is the inside of a group member's process: it consumes with one Go client and tells on stdout what
// happens to it, and does what it is told on stdin. Members in other languages (testdata/clients) speak the same lines:
//
//	MEMBER assigned P…    these partitions became its own      MEMBER committed    the command was done
//	MEMBER revoked P…     it gives these up, before it does    MEMBER sought       the command was done
//	MEMBER lost P…        it found that it had lost these      MEMBER left         it left the group, and ends
//	MEMBER record P O     it read the record at offset O       MEMBER error TEXT   it ends
//
// Commands are "commit" (whatever it has read), "seek P O" and "leave". Every line is one write, so that lines of
// several members in one pipe stay whole, and in the order of their events.
package member

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Spec says what a member is to be.
type Spec struct {
	Bootstrap, Group, Topic string
	// Name begins the lines of this member.
	Name string
	// Protocol is the group protocol: "classic" or "consumer".
	Protocol string
	// Strategy is an assignor's name, "-" for the client's or the server's own.
	Strategy string
	// Instance is a group.instance.id, "-" for none.
	Instance string
	// SessionMs is the session timeout of a classic member, in milliseconds.
	SessionMs int
}

// Args are the spec as the arguments of a member's process.
func (s Spec) Args() []string {
	return []string{s.Bootstrap, s.Group, s.Topic, s.Name, s.Protocol, s.Strategy, s.Instance, strconv.Itoa(s.SessionMs)}
}

func parseSpec(args []string) (Spec, error) {
	if len(args) != 8 {
		return Spec{}, fmt.Errorf("%d arguments, want 8", len(args))
	}
	ms, err := strconv.Atoi(args[7])
	return Spec{args[0], args[1], args[2], args[3], args[4], args[5], args[6], ms}, err
}

// heartbeatMs is how often a classic member heartbeats, in milliseconds: what bounds how long a rebalance takes.
const heartbeatMs = 500

// command is one line of stdin.
type command struct {
	verb      string
	partition int32
	offset    int64
}

// clients run one member until it left or ctx ends.
var clients = map[string]func(context.Context, Spec, string, <-chan command) error{
	"franz-go": franz,
	"sarama":   saramaMember,
	"kafka-go": kafkaGo,
	"kcat":     kcat,
}

// Main runs the member of the named client and returns the process's exit code. The program is what some clients run.
func Main(client, program string, args []string) int {
	spec, err := parseSpec(args)
	if err == nil {
		err = clients[client](context.Background(), spec, program, commands())
	}
	if err != nil {
		say(spec.Name, "error", strings.ReplaceAll(err.Error(), "\n", " "))
		return 1
	}
	say(spec.Name, "left")
	return 0
}

// commands reads stdin to its end, which means leaving too.
func commands() <-chan command {
	out := make(chan command)
	go func() {
		in := bufio.NewScanner(os.Stdin)
		for in.Scan() {
			var c command
			_, _ = fmt.Sscan(in.Text(), &c.verb, &c.partition, &c.offset) // only seek has all three
			out <- c
		}
		out <- command{verb: "leave"}
	}()
	return out
}

// say writes one line.
func say(words ...string) {
	_, _ = os.Stdout.WriteString(strings.Join(words, " ") + "\n") // nobody to tell when the test is gone
}

func sayPartitions(name, event string, partitions []int32) {
	words := []string{name, event}
	for _, p := range slices.Sorted(slices.Values(partitions)) {
		words = append(words, strconv.Itoa(int(p)))
	}
	say(words...)
}

func sayRecord(name string, partition int32, offset int64) {
	say(name, "record", strconv.Itoa(int(partition)), strconv.FormatInt(offset, 10))
}
