// Package kit holds an assignor against what Cauce and its users expect of one, in process or through a running plugin:
//
//	for _, result := range kit.Check(ctx, myAssignor.Assign, nil) { … }
package kit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin"
)

// Assign is the method of an assignor, called here or in its own process.
type Assign func(ctx context.Context, r *plugin.Request) (plugin.Response, error)

// Result is the outcome of one check.
type Result struct {
	Name  string
	Doc   string // what is expected
	Fault error  // nil when the assignor does what is expected
	Note  string // a figure that is worth knowing
	Took  time.Duration
}

const (
	randomRequests = 200
	// TimeLimit is how long the largest request may take, of 1,000 members and 10,000 partitions.
	TimeLimit     = time.Second
	largeAttempts = 3
	// callLimit ends a call that hangs.
	callLimit = 10 * time.Second
)

type check struct {
	name, doc string
	run       func(context.Context, Assign) (note string, err error)
}

var checks = []check{
	{"correct", "each partition of a subscribed topic goes to exactly one member that subscribes to it", correct},
	{"deterministic", "the same request gets the same answer", deterministic},
	{"settled", "an answer given back as the members' target stays as it is", settled},
	{"balanced", "members with the same subscription get equally many partitions, up to one for each topic", balanced},
	{"sticky", "when a member leaves or joins, other partitions stay where they are (a figure, not a condition)", sticky},
	{"concurrent", "requests at the same time get the answers that they get alone", concurrent},
	{"large", "1,000 members and 10,000 partitions take less than a second, in one of three attempts", large},
}

// Names are the names of all checks, in order.
func Names() []string {
	var names []string
	for _, c := range checks {
		names = append(names, c.name)
	}
	return names
}

// Check runs all checks but those skipped by name. It returns early when ctx ends.
func Check(ctx context.Context, assign Assign, skip []string) []Result {
	bounded := func(ctx context.Context, r *plugin.Request) (plugin.Response, error) {
		ctx, cancel := context.WithTimeout(ctx, callLimit)
		defer cancel()
		return assign(ctx, r)
	}
	var results []Result
	for _, c := range checks {
		if slices.Contains(skip, c.name) {
			continue
		}
		began := time.Now()
		note, err := c.run(ctx, bounded)
		results = append(results, Result{Name: c.name, Doc: c.doc, Fault: err, Note: note, Took: time.Since(began)})
		if ctx.Err() != nil {
			break
		}
	}
	return results
}

// ask returns who owns what after a call whose answer is correct.
func ask(ctx context.Context, assign Assign, r *plugin.Request) (owners, error) {
	answer, err := assign(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", describe(r), err)
	}
	o, err := verify(r, answer)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", describe(r), err)
	}
	return o, nil
}

func correct(ctx context.Context, assign Assign) (string, error) {
	for seed := range uint64(randomRequests) {
		if _, err := ask(ctx, assign, random(seed)); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d random requests", randomRequests), nil
}

func deterministic(ctx context.Context, assign Assign) (string, error) {
	for seed := range uint64(randomRequests / 4) {
		r := random(seed)
		first, err := ask(ctx, assign, r)
		if err != nil {
			return "", err
		}
		second, err := ask(ctx, assign, random(seed))
		if err != nil {
			return "", err
		}
		if n := first.moved(second); n > 0 {
			return "", fmt.Errorf("%s: %d partitions went to other members at the second time", describe(r), n)
		}
	}
	return "", nil
}

func settled(ctx context.Context, assign Assign) (string, error) {
	for seed := range uint64(randomRequests / 4) {
		r := random(seed)
		first, err := ask(ctx, assign, r)
		if err != nil {
			return "", err
		}
		first.setTargets(r)
		second, err := ask(ctx, assign, r)
		if err != nil {
			return "", err
		}
		if n := first.moved(second); n > 0 {
			return "", fmt.Errorf("%s: %d partitions moved although nothing had changed", describe(r), n)
		}
	}
	return "", nil
}

func balanced(ctx context.Context, assign Assign) (string, error) {
	for _, size := range []struct{ members, topics, partitions int }{{3, 1, 10}, {7, 1, 7}, {10, 1, 4}, {4, 3, 9}, {10, 5, 13}} {
		r := uniform(size.members, size.topics, size.partitions)
		o, err := ask(ctx, assign, r)
		if err != nil {
			return "", err
		}
		loads := o.loads(size.members)
		if spread := slices.Max(loads) - slices.Min(loads); spread > size.topics {
			return "", fmt.Errorf("%s: one member has %d partitions more than another", describe(r), spread)
		}
	}
	return "", nil
}

func sticky(ctx context.Context, assign Assign) (string, error) {
	r := uniform(10, 4, 30)
	before, err := ask(ctx, assign, r)
	if err != nil {
		return "", err
	}
	before.setTargets(r)
	joined := withMember(r, "member-99")
	after, err := ask(ctx, assign, joined)
	if err != nil {
		return "", err
	}
	toOthers := before.movedExceptTo(after, len(joined.Members)-1)
	after.setTargets(joined)
	last, err := ask(ctx, assign, withoutMember(joined, 0))
	if err != nil {
		return "", err
	}
	fromOthers := 0
	for t := range after {
		for p, owner := range after[t] {
			if owner != 0 && last[t][p] != owner-1 {
				fromOthers++
			}
		}
	}
	return fmt.Sprintf("needless moves of 120 partitions: %d as a member joins, %d as one leaves", toOthers, fromOthers), nil
}

func concurrent(ctx context.Context, assign Assign) (string, error) {
	const calls = 8
	expected := make([]owners, calls)
	for i := range expected {
		var err error
		if expected[i], err = ask(ctx, assign, random(uint64(i))); err != nil {
			return "", err
		}
	}
	errs := make([]error, calls)
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() {
			got, err := ask(ctx, assign, random(uint64(i)))
			if err == nil && expected[i].moved(got) > 0 {
				err = errors.New("another answer than alone")
			}
			errs[i] = err
		})
	}
	wg.Wait()
	return "", errors.Join(errs...)
}

// large takes the best of some attempts: what else the machine does is not the assignor's fault.
func large(ctx context.Context, assign Assign) (string, error) {
	slowest := time.Duration(0)
	for _, r := range largeRequests() {
		o, err := ask(ctx, assign, r)
		if err != nil {
			return "", err
		}
		settled := *r
		settled.Members = slices.Clone(r.Members)
		o.setTargets(&settled)
		for _, request := range []*plugin.Request{r, withoutMember(&settled, len(r.Members)/2)} {
			took, err := fastest(ctx, assign, request)
			if err != nil {
				return "", err
			}
			slowest = max(slowest, took)
		}
	}
	return fmt.Sprintf("slowest %v", slowest.Round(time.Millisecond)), nil
}

func fastest(ctx context.Context, assign Assign, r *plugin.Request) (time.Duration, error) {
	best := callLimit
	for range largeAttempts {
		began := time.Now()
		if _, err := ask(ctx, assign, r); err != nil {
			return 0, err
		}
		if best = min(best, time.Since(began)); best <= TimeLimit {
			return best, nil
		}
	}
	return 0, fmt.Errorf("%s: took %v, the limit is %v", describe(r), best.Round(time.Millisecond), TimeLimit)
}
