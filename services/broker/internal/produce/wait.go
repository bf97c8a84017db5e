package produce

import (
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// maxWait bounds a wait, whatever timeout the producer names.
const maxWait = 5 * time.Minute

// mustWait reports whether a batch of the request is not committed yet, and has the waits set up if so.
func (p *produce) mustWait() bool {
	begun := false
	for i := range p.results {
		res := &p.results[i]
		if res.err != nil {
			continue
		}
		if !begun {
			p.waiting.Begin(p.protected, p.expire)
			begun = true
		}
		p.waiting.Enlist(&res.wait)
		var waits bool
		if waits, res.err = res.partition.Await(&res.wait, res.info.EndOffset); waits {
			res.waits = true
		}
	}
	if !begun || !p.waiting.Alone() {
		return begun
	}
	p.takeOutcomes() // of waits that have ended already
	return false
}

// wait leaves the request to whoever ends its waits. Nothing of it may be touched afterwards.
func (p *produce) wait(now time.Time) {
	p.forgetBody()
	p.r.ReleaseBody()
	timeout := min(time.Duration(p.request.TimeoutMillis)*time.Millisecond, maxWait)
	p.service.clock.Expect(&p.waiting, now.Add(timeout))
	p.tellReaders() // the followers, who have to fetch it first
	p.waiting.Over()
}

// forgetBody keeps what the answer needs of a request whose body is given back.
func (p *produce) forgetBody() {
	next := 0
	for i := range p.request.Topics {
		t := &p.request.Topics[i]
		name := ""
		for j := range t.Partitions {
			t.Partitions[j].Records = nil
			if hosted := p.results[next].partition; hosted != nil {
				name = hosted.Topic.Name
			}
			next++
		}
		switch {
		case p.request.Version >= 13:
			t.Topic = ""
		case name != "":
			t.Topic = name
		default:
			t.Topic = strings.Clone(t.Topic)
		}
	}
	p.request.TransactionID = nil
}

// giveUp ends the waits that are left at the deadline.
func (p *produce) giveUp() {
	for i := range p.results {
		res := &p.results[i]
		if res.waits && res.partition.GiveUp(&res.wait) {
			res.wait.Err = kerr.RequestTimedOut
			p.waiting.Over()
		}
	}
}

// respondAfterWait answers once no wait is left.
func (p *produce) respondAfterWait() {
	p.r.Trace().Did("replicate")
	p.takeOutcomes()
	p.respond()
	p.service.recycle(p)
}

func (p *produce) takeOutcomes() {
	for i := range p.results {
		if res := &p.results[i]; res.waits {
			res.err = res.wait.Err
		}
	}
}
