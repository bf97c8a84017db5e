// Package assign asks assignor plugins for assignments: it bounds how long and how many at once, translates, and takes only
// answers that are right.
package assign

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/host"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/assignment"
)

const (
	// parallelQuestions bounds how many questions are with one assignor at once. Each has its own share, so that none waits
	// for another that hangs.
	parallelQuestions = 4
	// maxQuestions bounds those and the ones that wait. A group has one at a time, and asks again after a failure.
	maxQuestions = 10_000
	// lagShare is the part of an answer's time that measuring lag may take, as one in so many.
	lagShare = 4
)

var (
	errBusy   = errors.New("too many assignments are being computed")
	errClosed = errors.New("the coordinator stops")
)

// Asker asks the plugins of a host. Its methods may be called from any goroutine.
type Asker struct {
	host    *host.Host
	timeout time.Duration

	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex
	closed  bool
	open    int
	slots   map[string]chan struct{} // by assignor, of those that are offered; each holds one for each question that is with it
	waiting sync.WaitGroup
}

// New makes an asker over a host, which stays the caller's. timeout is what each answer may take, the start of the
// plugin included, once it is the question's turn.
func New(h *host.Host, timeout time.Duration) *Asker {
	a := &Asker{host: h, timeout: timeout, slots: map[string]chan struct{}{}}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	return a
}

// Lag measures how many records the group is behind, by topic of the question and by partition; -1 is unknown.
type Lag func(ctx context.Context) [][]int64

// Ask has done called once, from another goroutine, with the assignor's answer or an error that names the assignor and
// says what is wrong. measure is called before if the assignor wants to know; it may be nil. After Close nothing is called.
// in must not be changed any more. The call is part of the trace of origin.
func (a *Asker) Ask(origin trace.SpanContext, in *assignment.Input, measure Lag, done func(assignment.Output, error)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	a.open++
	busy := a.open > maxQuestions
	slots := a.slots[in.Assignor]
	if slots == nil {
		slots = make(chan struct{}, parallelQuestions)
		a.slots[in.Assignor] = slots
	}
	a.waiting.Go(func() {
		if busy {
			done(nil, fmt.Errorf("assignor %s: %w", in.Assignor, errBusy))
		} else {
			done(a.answer(origin, in, measure, slots))
		}
		a.mu.Lock()
		a.open--
		a.mu.Unlock()
	})
}

// Close fails the questions that are open and returns when done has been called for each.
func (a *Asker) Close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.cancel()
	a.waiting.Wait()
}

func (a *Asker) answer(origin trace.SpanContext, in *assignment.Input, measure Lag, slots chan struct{}) (assignment.Output, error) {
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-a.ctx.Done():
		return nil, fmt.Errorf("assignor %s: %w", in.Assignor, errClosed)
	}
	ctx, cancel := context.WithTimeout(trace.ContextWithSpanContext(a.ctx, origin), a.timeout)
	defer cancel()
	question := request(in)
	if err := a.addLag(ctx, question, in.Assignor, measure); err != nil {
		return nil, err
	}
	answer, err := a.host.Assign(ctx, in.Assignor, question)
	switch {
	case a.ctx.Err() != nil:
		return nil, fmt.Errorf("assignor %s: %w", in.Assignor, errClosed)
	case err != nil:
		return nil, err
	}
	out := output(in, answer)
	if err := in.Check(out); err != nil {
		return nil, err
	}
	return out, nil
}

// addLag adds what can be measured in a part of the time that the answer may take.
func (a *Asker) addLag(ctx context.Context, r *plugin.Request, assignor string, measure Lag) error {
	wants, err := a.host.WantsLag(ctx, assignor)
	if err != nil || !wants || measure == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, a.timeout/lagShare)
	defer cancel()
	for i, lag := range measure(ctx) {
		r.Topics[i].Lag = lag
	}
	return nil
}

// request is the question as plugins see it. Targets of topics that nobody subscribes to any more are left out.
func request(in *assignment.Input) *plugin.Request {
	r := &plugin.Request{Group: in.Group, Epoch: in.Epoch, Topics: make([]plugin.Topic, len(in.Topics)), Members: make([]plugin.Member, len(in.Members))}
	places := make(map[metadata.TopicID]int, len(in.Topics))
	for i, t := range in.Topics {
		places[t.ID] = i
		r.Topics[i] = plugin.Topic{ID: t.ID, Name: t.Name, Partitions: t.Count, Racks: t.Racks}
	}
	var list []metadata.TopicID // as translated last: most members share one
	var topics []int
	for i, m := range in.Members {
		if i == 0 || !slices.Equal(m.Topics, list) {
			list, topics = m.Topics, make([]int, 0, len(m.Topics))
			for _, id := range m.Topics {
				if place, ok := places[id]; ok {
					topics = append(topics, place)
				}
			}
		}
		r.Members[i] = plugin.Member{ID: m.ID, InstanceID: m.InstanceID, Rack: m.Rack, Topics: topics, Target: target(m.Target, places)}
	}
	return r
}

// target is in order of topic, so that equal questions are equal.
func target(partitions assignment.Partitions, places map[metadata.TopicID]int) []plugin.TopicPartitions {
	var list []plugin.TopicPartitions
	for id, numbers := range partitions {
		if place, ok := places[id]; ok {
			list = append(list, plugin.TopicPartitions{Topic: place, Partitions: numbers})
		}
	}
	slices.SortFunc(list, func(a, b plugin.TopicPartitions) int { return a.Topic - b.Topic })
	return list
}

// output is the answer as the coordinator sees it. The host has made sure that each member and topic exists.
func output(in *assignment.Input, answer plugin.Response) assignment.Output {
	out := make(assignment.Output, len(in.Members))
	for i, list := range answer {
		partitions := make(assignment.Partitions, len(list))
		for _, p := range list {
			if len(p.Partitions) > 0 {
				id := in.Topics[p.Topic].ID
				partitions[id] = slices.Concat(partitions[id], p.Partitions)
			}
		}
		for _, numbers := range partitions {
			slices.Sort(numbers)
		}
		out[in.Members[i].ID] = partitions
	}
	return out
}
