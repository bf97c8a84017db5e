// Package transactor drives transactional producers, and the consumers whose offsets they commit, in programs that answer one
// command with one line (internal/program). A program has any number of them, by name:
//
//	producer P ID TIMEOUT_MS       make a producer and let it initialize its transactions
//	begin P                        begin a transaction
//	send P TOPIC PARTITION VALUE…  write records in it; answered once all are acknowledged
//	offsets P C                    commit in it what was polled from C
//	commit P, abort P              end it
//	consumer C GROUP TOPIC CLASSIC|CONSUMER   join a group, to read what is committed from the first record on
//	poll C                         answered with "PARTITION:VALUE" of one to ten records
//	close C                        leave the group
//	read TOPIC PARTITIONS committed|uncommitted   read all partitions up to the value "end": "PARTITION:VALUE" of each record
//
// A command that fails is answered with the error as the client names it, then words about it.
package transactor

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/cauce-stream/cauce/tests/conformance/internal/program"
)

// End is the value that ends each partition that is read.
const End = "end"

// Transactor is one program.
type Transactor struct{ *program.Program }

// Start starts a program; the name is for messages.
func Start(name, path string, args ...string) (Transactor, error) {
	p, err := program.Start("the transactor of "+name, path, args...)
	return Transactor{p}, err
}

// Refused is the name of the error that a command was answered with, "" when there was none.
func Refused(err error) (string, error) {
	var r *program.Refusal
	if !errors.As(err, &r) {
		return "", err
	}
	name, _, _ := strings.Cut(r.Message, " ")
	return name, nil
}

// Read returns the values in each partition of a topic, those below End.
func (t Transactor) Read(ctx context.Context, topic string, partitions int, isolation string) ([][]string, error) {
	words, err := t.Call(ctx, "read", topic, strconv.Itoa(partitions), isolation)
	if err != nil {
		return nil, err
	}
	out := make([][]string, partitions)
	for _, w := range words {
		r, err := parse(w)
		if err != nil || int(r.Partition) >= partitions {
			return nil, fmt.Errorf("read was answered with %q", w)
		}
		if r.Value != End {
			out[r.Partition] = append(out[r.Partition], r.Value)
		}
	}
	return out, nil
}

// Record is a record that was polled.
type Record struct {
	Partition int32
	Value     string
}

// Poll returns the next records of a consumer, one at least.
func (t Transactor) Poll(ctx context.Context, consumer string) ([]Record, error) {
	words, err := t.Call(ctx, "poll", consumer)
	if err != nil {
		return nil, err
	}
	var out []Record
	for _, w := range words {
		r, err := parse(w)
		if err != nil {
			return nil, fmt.Errorf("poll was answered with %q", w)
		}
		out = append(out, r)
	}
	return out, nil
}

func parse(word string) (Record, error) {
	partition, value, _ := strings.Cut(word, ":")
	p, err := strconv.ParseInt(partition, 10, 32)
	return Record{int32(p), value}, err
}
