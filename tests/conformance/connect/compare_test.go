//go:build conformance

package connect

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// settling is for how long one worker may rebalance where the other does not.
const settling = 15 * time.Second

// pair is a worker of Kafka's and one of ours, which are sent the same.
type pair struct {
	*testing.T
	theirs, ours *worker
	used         map[*difference]bool
}

// both has the two do something at the same time.
func (p *pair) both(f func(*worker) error) {
	p.Helper()
	var group errgroup.Group
	for _, w := range []*worker{p.theirs, p.ours} {
		group.Go(func() error { return f(w) })
	}
	if err := group.Wait(); err != nil {
		p.Fatal(err)
	}
}

// do sends both the same request and compares the answers. A worker that cannot answer for the moment, as it is about to rebalance, is asked again.
func (p *pair) do(method, path, body string) {
	p.Helper()
	var theirs, ours answer
	p.both(func(w *worker) error {
		if w == p.theirs {
			theirs = w.ask(p.T, method, path, body)
		} else {
			ours = w.ask(p.T, method, path, body)
		}
		return nil
	})
	if theirs.status != ours.status {
		p.settle(p.theirs, &theirs, method, path, body)
		p.settle(p.ours, &ours, method, path, body)
	}
	p.compare(strings.TrimSpace(method+" "+path+" "+body), theirs, ours)
}

// conflict says whether an answer is that the group is about to rebalance. Where Kafka's worker is only asked for something, that gets out of it as 500.
func (a *answer) conflict() bool {
	return a.status == http.StatusConflict || a.status == http.StatusInternalServerError && strings.Contains(a.text, "a rebalance is expected")
}

// settle asks again while the answer is a conflict, for as long as a rebalance takes.
func (p *pair) settle(w *worker, a *answer, method, path, body string) {
	if !a.conflict() {
		return
	}
	_ = w.reach(settling, "", func() (bool, string) { // what it is then is compared
		*a = w.ask(p.T, method, path, body)
		return !a.conflict(), ""
	})
}

func (p *pair) compare(at string, theirs, ours answer) {
	p.Helper()
	p.equal(at, "status", theirs.status, ours.status)
	if theirs.status != ours.status && !p.intended(at, "status", theirs.status, ours.status) {
		p.Logf("Kafka %v, here %v", theirs, ours)
	}
	p.equal(at, "location", theirs.location, ours.location)
	if theirs.status/100 != ours.status/100 {
		return
	}
	p.equal(at, "content type", theirs.kind, ours.kind)
	if theirs.body == nil || ours.body == nil {
		p.equal(at, "body", theirs.text, ours.text)
		return
	}
	p.values(at, "", theirs.body, ours.body)
}

// intended says whether a difference is one of those that are meant to be.
func (p *pair) intended(at, field string, theirs, ours any) bool {
	for i := range differences {
		if d := &differences[i]; d.covers(at, field, theirs, ours) {
			p.used[d] = true
			return true
		}
	}
	return false
}

func (p *pair) equal(at, field string, theirs, ours any) {
	p.Helper()
	if theirs != ours && !p.intended(at, field, theirs, ours) {
		p.Errorf("%s: %s is %v, and %v with Kafka", at, field, ours, theirs)
	}
}

// said are fields in which each worker has its own words: they have to be there in both, or in neither.
var said = []string{"message", "trace", "documentation", "errors", "error_count", "last_modified"}

func (p *pair) values(at, field string, theirs, ours any) {
	p.Helper()
	last := field[strings.LastIndexByte(field, '.')+1:]
	if last == "version" {
		p.equal(at, field+" given", isSaid(theirs), isSaid(ours))
	}
	if slices.Contains(said, last) {
		p.equal(at, field+" given", isSaid(theirs), isSaid(ours))
		return
	}
	switch t := theirs.(type) {
	case map[string]any:
		o, ok := ours.(map[string]any)
		if !ok {
			p.equal(at, field, fmt.Sprint(theirs), fmt.Sprint(ours))
			return
		}
		for _, key := range slices.Sorted(maps.Keys(merged(t, o))) {
			one, other := t[key], o[key]
			_, inTheirs := t[key]
			_, inOurs := o[key]
			if inTheirs != inOurs {
				p.equal(at, field+"."+key+" present", inTheirs, inOurs)
				continue
			}
			p.values(at, field+"."+key, one, other)
		}
	case []any:
		o, ok := ours.([]any)
		if !ok {
			p.equal(at, field, fmt.Sprint(theirs), fmt.Sprint(ours))
			return
		}
		p.lists(at, field, t, o)
	default:
		p.equal(at, field, theirs, ours)
	}
}

func isSaid(v any) bool { return v != nil && v != "" && v != 0.0 && fmt.Sprint(v) != "[]" }

func merged(a, b map[string]any) map[string]any {
	m := maps.Clone(a)
	maps.Copy(m, b)
	return m
}

// lists compares element by element, and where elements have names, those of the same name.
func (p *pair) lists(at, field string, theirs, ours []any) {
	p.Helper()
	a, b := byName(theirs), byName(ours)
	if a != nil && b != nil {
		p.values(at, field, a, b)
		return
	}
	if strings.HasSuffix(field, "groups") || len(theirs) > 0 && fmt.Sprintf("%T", theirs[0]) == "string" && field == "" {
		// Names that Kafka has in the order of a map.
		theirs, ours = sorted(theirs), sorted(ours)
	}
	p.equal(at, field+" length", len(theirs), len(ours))
	for i := range min(len(theirs), len(ours)) {
		p.values(at, fmt.Sprintf("%s.%d", field, i), theirs[i], ours[i])
	}
}

// byName are the elements of a list of objects by what names them; nil for other lists.
func byName(list []any) map[string]any {
	m := map[string]any{}
	for _, one := range list {
		o, ok := one.(map[string]any)
		if !ok {
			return nil
		}
		if v, ok := o["value"].(map[string]any); ok {
			o = v
		}
		name, of := "", fmt.Sprint(o["type"])
		for _, key := range []string{"name", "class", "id", "task", "partition"} {
			if o[key] != nil {
				name = fmt.Sprint(o[key])
				break
			}
		}
		if strings.HasSuffix(of, "converter") {
			name += "/" + of // which may be there for keys and values, and for headers
		}
		if name == "" || m[name] != nil {
			return nil
		}
		m[name] = one
	}
	return m
}

func sorted(list []any) []any {
	return slices.SortedFunc(slices.Values(list), func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
}
