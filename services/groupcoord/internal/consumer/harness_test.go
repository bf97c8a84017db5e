package consumer

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/cauce-stream/cauce/libs/config"
	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/assignment"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/schema"
)

const groupID = "g"

// world is one group with its log, its clock and the cluster as it sees it.
type world struct {
	t        testing.TB
	now      time.Time
	image    *metadata.Image
	settings *op.Settings
	timers   *op.Timers
	group    *Group
	log      []coordinator.Record
	// What operations brought about since it was last taken.
	answers  []coordinator.Answer
	question *assignment.Input
	shown    *assignment.Input
	failures []*AssignmentFailed
	last     coordinator.Ticket
	topics   byte
}

func newWorld(t testing.TB, broker map[string]string, group map[string]string) *world {
	t.Helper()
	values, err := config.FromMap(configkeys.Broker(), broker)
	if err != nil {
		t.Fatal(err)
	}
	return &world{
		t: t, now: time.UnixMilli(1_700_000_000_000), image: metadata.Empty(), timers: op.NewTimers(), group: New(groupID, NewSubscriptions()),
		settings: &op.Settings{Broker: values, Group: func(string) map[string]string { return group }},
	}
}

// do runs an operation on the group.
func (w *world) do(f func(o *op.Op)) {
	w.t.Helper()
	o := op.New(w.now, w.image, w.settings, w.timers, func(r schema.Record) { w.group.Replay(r) })
	f(o)
	s := o.Step()
	w.log = append(w.log, s.Records...)
	w.answers = append(w.answers, s.Answers...)
	for _, j := range s.Jobs {
		switch j := j.(type) {
		case *assignment.Input:
			if w.question != nil {
				w.t.Fatalf("a question for epoch %d while one for epoch %d is under way", j.Epoch, w.question.Epoch)
			}
			w.question = j
		case *AssignmentFailed:
			w.failures = append(w.failures, j)
		default:
			w.t.Fatalf("unexpected job %T", j)
		}
	}
}

// advance lets time pass and does what becomes due, each at its time.
func (w *world) advance(d time.Duration) {
	w.t.Helper()
	end := w.now.Add(d)
	for steps := 0; ; steps++ {
		if steps > 10_000 {
			w.t.Fatal("timers never rest")
		}
		next := w.timers.Next()
		if next.IsZero() || next.After(end) {
			break
		}
		if next.After(w.now) {
			w.now = next
		}
		k, ok := w.timers.Pop(w.now)
		if !ok {
			continue // it has been put off
		}
		w.do(func(o *op.Op) { w.group.Timer(o, k) })
	}
	w.now = end
}

// answer gives the answer to the question under way.
func (w *world) answer(out assignment.Output, err error) {
	w.t.Helper()
	q := w.question
	w.question = nil
	w.do(func(o *op.Op) { w.group.Assigned(o, q, out, err) })
}

// move has the group taken over by another coordinator, which reads the log, or what compaction leaves of it. Requests that wait are
// the runtime's then.
func (w *world) move(compacted bool) {
	w.t.Helper()
	log := w.log
	if compacted {
		log = compact(log)
	}
	fresh := replayed(w.t, log)
	if a, b := hard(w.group), hard(fresh); !reflect.DeepEqual(a, b) {
		w.t.Fatalf("the log does not lead to the state\n have %+v\n want %+v", b, a)
	}
	w.group, w.timers, w.question = fresh, op.NewTimers(), nil
	w.do(func(o *op.Op) { w.group.Loaded(o) })
}

func compact(log []coordinator.Record) []coordinator.Record {
	last := map[string]int{}
	for i, r := range log {
		last[string(r.Key)] = i
	}
	var kept []coordinator.Record
	for i, r := range log {
		if last[string(r.Key)] == i && r.Value != nil {
			kept = append(kept, r)
		}
	}
	return kept
}

func replayed(t testing.TB, log []coordinator.Record) *Group {
	t.Helper()
	g := New(groupID, NewSubscriptions())
	for _, r := range log {
		record, err := schema.Decode(r)
		if err != nil {
			t.Fatal(err)
		}
		g.Replay(record)
	}
	return g
}

// state is what a group is by its records, and what follows from them.
type state struct {
	epoch                                schema.GroupEpoch
	target                               schema.TargetEpoch
	said                                 map[string]schema.MemberMetadata
	current                              map[string]schema.CurrentAssignment
	targets                              map[string]assignment.Partitions
	expressions                          map[string]schema.ResolvedExpression
	oldMetadata                          bool
	instances                            map[string]string
	owners                               owners
	classics                             int
	topics, patterns, assignors, classic counts
}

func hard(g *Group) state {
	s := state{
		epoch: g.epoch, target: g.target, said: map[string]schema.MemberMetadata{}, current: map[string]schema.CurrentAssignment{}, targets: g.targets,
		expressions: map[string]schema.ResolvedExpression{}, oldMetadata: g.oldMetadata, instances: g.instances, owners: g.owners, classics: g.classics,
		topics: g.topics, patterns: g.patterns, assignors: g.assignors, classic: g.protocols,
	}
	for id, m := range g.members {
		said := *m.said
		if len(said.Topics) == 0 {
			said.Topics = nil
		}
		s.said[id], s.current[id] = said, *m.current
	}
	for e, r := range g.expressions {
		kept := *r
		if len(kept.Topics) == 0 {
			kept.Topics = nil
		}
		s.expressions[e] = kept
	}
	return s
}

// createTopic makes a topic; its id says which one it is: the first one has 1 at its end.
func (w *world) createTopic(name string, partitions int) {
	w.t.Helper()
	w.topics++
	id := metadata.TopicID{15: w.topics}
	w.apply(&metadatapb.Record{Record: &metadatapb.Record_Topic{Topic: &metadatapb.TopicRecord{Name: name, TopicId: id[:]}}})
	w.grow(name, partitions)
}

// grow gives a topic more partitions.
func (w *world) grow(name string, partitions int) {
	w.t.Helper()
	t, ok := w.image.Topic(name)
	if !ok {
		w.t.Fatalf("there is no topic %s", name)
	}
	var records []*metadatapb.Record
	for p := len(t.Partitions); p < partitions; p++ {
		partition := &metadata.Partition{ID: int32(p), Leader: 1, Replicas: []int32{1}, ISR: []int32{1}}
		records = append(records, &metadatapb.Record{Record: &metadatapb.Record_Partition{Partition: partition.Record(t.ID)}})
	}
	w.apply(records...)
}

func (w *world) deleteTopic(name string) {
	w.t.Helper()
	t, ok := w.image.Topic(name)
	if !ok {
		w.t.Fatalf("there is no topic %s", name)
	}
	w.apply(&metadatapb.Record{Record: &metadatapb.Record_RemoveTopic{RemoveTopic: &metadatapb.RemoveTopicRecord{TopicId: t.ID[:]}}})
}

func (w *world) apply(records ...*metadatapb.Record) {
	w.t.Helper()
	next, _, err := w.image.Apply(w.image.Offset()+int64(len(records)), records)
	if err != nil {
		w.t.Fatal(err)
	}
	w.image = next
	w.do(func(o *op.Op) { w.group.OnImage(o) })
}

// assign deals the partitions out evenly and keeps what members have where that is even: what a good assignor does.
func assign(in *assignment.Input) assignment.Output {
	out := assignment.Output{}
	for _, m := range in.Members {
		out[m.ID] = assignment.Partitions{}
	}
	for _, t := range in.Topics {
		var subscribers []assignment.Member
		for _, m := range in.Members {
			if slices.Contains(m.Topics, t.ID) {
				subscribers = append(subscribers, m)
			}
		}
		if len(subscribers) == 0 {
			continue
		}
		share := make(map[string]int, len(subscribers))
		for i, m := range subscribers {
			share[m.ID] = int(t.Count) / len(subscribers)
			if i < int(t.Count)%len(subscribers) {
				share[m.ID]++
			}
		}
		taken := make([]bool, t.Count)
		give := func(id string, p int32) {
			out[id][t.ID] = append(out[id][t.ID], p)
			taken[p], share[id] = true, share[id]-1
		}
		for _, m := range subscribers {
			for _, p := range m.Target[t.ID] {
				if p < t.Count && !taken[p] && share[m.ID] > 0 {
					give(m.ID, p)
				}
			}
		}
		for p := range t.Count {
			for _, m := range subscribers {
				if !taken[p] && share[m.ID] > 0 {
					give(m.ID, p)
				}
			}
		}
	}
	for _, partitions := range out {
		for id := range partitions {
			slices.Sort(partitions[id])
		}
	}
	return out
}

// show are partitions as topic:0,1 in order.
func (w *world) show(partitions map[metadata.TopicID][]int32) string {
	var all []string
	for id, list := range partitions {
		name := fmt.Sprint("#", id[15])
		if t, ok := w.image.TopicByID(id); ok {
			name = t.Name
		}
		text := name + ":"
		for i, p := range slices.Sorted(slices.Values(list)) {
			if i > 0 {
				text += ","
			}
			text += fmt.Sprint(p)
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return fmt.Sprint(all)
}

func ints(o schema.OwnedPartitions) map[metadata.TopicID][]int32 {
	out := map[metadata.TopicID][]int32{}
	for id, list := range o {
		out[id] = slices.Collect(maps.Keys(list))
	}
	return out
}
