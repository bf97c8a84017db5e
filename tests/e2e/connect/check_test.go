//go:build e2e && linux

package connect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// check holds the topics against the tables.
func (p *tables) check() {
	p.Helper()
	rows := p.numbers("SELECT id, 1 FROM event")
	history := p.read("storm-event", func(*kgo.Record) (int64, error) { return 1, nil })
	repeated := p.hold("event", history, rows)
	p.Logf("%d rows written once: %d records, %d of them repeated", len(rows), len(history), repeated)

	versions := p.numbers("SELECT id, version FROM item")
	tombstones := 0
	history = p.read("storm-item", func(r *kgo.Record) (int64, error) {
		if r.Value == nil {
			tombstones++
		}
		for _, h := range r.Headers {
			if h.Key == "version" {
				return strconv.ParseInt(string(h.Value), 10, 64)
			}
		}
		return 0, errors.New("it has no version")
	})
	repeated = p.hold("item", history, versions)
	p.Logf("%d rows changed again and again: %d records, %d of them repeated, %d tombstones", len(versions), len(history), repeated, tombstones)
	if tombstones == 0 || p.writes.Load() < 20 {
		p.Errorf("too little was done: %d tombstones, %d writes", tombstones, p.writes.Load())
	}
}

// numbers are the two columns of a query.
func (p *tables) numbers(sql string) map[int64]int64 {
	p.Helper()
	all := map[int64]int64{}
	for _, line := range p.execute(p.Context(), sql) {
		var id, n int64
		if _, err := fmt.Sscanf(line, "%d|%d", &id, &n); err != nil {
			p.Fatalf("%q: %v", line, err)
		}
		all[id] = n
	}
	return all
}

// version is a record of a topic: a row as of one time.
type version struct {
	id, version int64
	partition   int32
	offset      int64
}

// read reads all that is committed in a topic, each partition in its order.
func (p *tables) read(topic string, versionOf func(*kgo.Record) (int64, error)) []version {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	defer cancel()
	ends, err := kadm.NewClient(p.client()).ListCommittedOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		p.Fatal(err)
	}
	var history []version
	for _, end := range ends[topic] {
		one := p.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {end.Partition: kgo.NewOffset().AtStart()}}),
			kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
		for at := int64(0); at < end.Offset; {
			fetches := one.PollFetches(ctx)
			if err := fetches.Err(); err != nil {
				p.Fatalf("reading %s-%d at %d of %d: %v", topic, end.Partition, at, end.Offset, err)
			}
			fetches.EachRecord(func(r *kgo.Record) {
				at = r.Offset + 1
				if !r.Attrs.IsControl() {
					history = append(history, p.versionOf(r, versionOf))
				}
			})
		}
		one.Close()
	}
	return history
}

func (p *tables) versionOf(r *kgo.Record, versionOf func(*kgo.Record) (int64, error)) version {
	p.Helper()
	var key struct{ Payload int64 }
	v, err := versionOf(r)
	if fault := json.Unmarshal(r.Key, &key); err != nil || fault != nil {
		p.Fatalf("%s-%d@%d: key %s, headers %v: %v, %v", r.Topic, r.Partition, r.Offset, r.Key, r.Headers, err, fault)
	}
	return version{key.Payload, v, r.Partition, r.Offset}
}

// hold holds the history of a topic against the newest version of each row: all are there, each key is in one partition, and its versions only grow but for
// those that come again after a crash, which without exactly-once support may be. It returns how many those are.
func (p *tables) hold(table string, history []version, newest map[int64]int64) (repeated int) {
	p.Helper()
	type progress struct {
		partition int32
		seen      map[int64]bool
		most      int64
		last      int64
	}
	keys := map[int64]*progress{}
	wrong := 0
	fault := func(v version, format string, args ...any) {
		if wrong++; wrong <= 20 {
			p.Errorf("%s: row %d at %d of partition %d: %s", table, v.id, v.offset, v.partition, fmt.Sprintf(format, args...))
		}
	}
	for _, v := range history {
		k := keys[v.id]
		if k == nil {
			k = &progress{partition: v.partition, seen: map[int64]bool{}}
			keys[v.id] = k
		}
		switch {
		case v.partition != k.partition:
			fault(v, "it was in partition %d before", k.partition)
		case v.version > newest[v.id]:
			fault(v, "version %d comes after the newest, %d", v.version, newest[v.id])
		case v.version > k.most:
			k.most = v.version
		case !k.seen[v.version]:
			fault(v, "version %d comes first after %d", v.version, k.most)
		default:
			repeated++
			if p.exactlyOnce {
				fault(v, "version %d comes again, after %d", v.version, k.most)
			}
		}
		k.seen[v.version], k.last = true, v.version
	}
	for id, version := range newest {
		if k := keys[id]; k == nil {
			p.Errorf("%s: row %d is missing", table, id)
		} else if k.last != version {
			p.Errorf("%s: row %d ends with version %d, not %d", table, id, k.last, version)
		}
	}
	return repeated
}
