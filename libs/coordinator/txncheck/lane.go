package txncheck

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/tracing"
)

const (
	// parallelRequests bounds the requests to one coordinator that are under way: the answer to one that adds partitions waits for
	// the coordinator's log.
	parallelRequests = 4
	// maxQuestions bounds the questions of a request.
	maxQuestions = 1000
	// firstPause is before a busy coordinator is asked again: most often it takes no longer to write the last markers.
	firstPause = time.Millisecond
)

// lane is what goes to one coordinator. Checker.mu guards it.
type lane struct {
	addr     string
	queue    []*question
	requests int
}

// start sends what is queued, as far as requests may be under way. mu is held.
func (c *Checker) start(l *lane) {
	for len(l.queue) > 0 && l.requests < parallelRequests {
		batch := l.take()
		l.requests++
		c.running.Go(func() { c.send(l, batch) })
	}
	if len(l.queue) == 0 && l.requests == 0 {
		delete(c.lanes, l.addr)
	}
}

// take is the questions of the next request: answers name transactional ids, so that there is one of each.
func (l *lane) take() []*question {
	var batch []*question
	ids := map[string]bool{}
	l.queue = slices.DeleteFunc(l.queue, func(q *question) bool {
		if len(batch) == maxQuestions || ids[q.ID] {
			return false
		}
		ids[q.ID] = true
		batch = append(batch, q)
		return true
	})
	return batch
}

// send has questions answered.
func (c *Checker) send(l *lane, batch []*question) {
	results, err := c.request(l.addr, batch)
	c.mu.Lock()
	l.requests--
	c.start(l)
	c.mu.Unlock()
	for _, q := range batch {
		if err != nil {
			c.fail(q, err)
			continue
		}
		errs := results.of(q)
		if q.Add && slices.ContainsFunc(errs, isBusy) && q.mayAskAgain(&c.cfg) {
			c.running.Go(func() { c.again(q) })
			continue
		}
		c.answer(q, errs)
	}
}

func isBusy(err error) bool { return errors.Is(err, kerr.ConcurrentTransactions) }

// mayAskAgain sets the pause before the question is asked again; false when there is no time for that.
func (q *question) mayAskAgain(cfg *Config) bool {
	q.pause = min(max(2*q.pause, firstPause), cfg.Backoff)
	return time.Since(q.since)+q.pause <= cfg.Patience
}

// again asks once more after a pause.
func (c *Checker) again(q *question) {
	timer := time.NewTimer(q.pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.ctx.Done():
	}
	c.ask(q, c.ctx.Err() != nil)
}

// results are the codes of a response.
type results map[string]map[Partition]int16

func (r results) of(q *question) []error {
	errs := make([]error, len(q.partitions))
	codes := r[q.ID]
	for i, p := range q.partitions {
		code, ok := codes[p]
		if !ok {
			errs[i] = kerr.UnknownServerError // the answer does not name it
			continue
		}
		errs[i] = kerr.ErrorForCode(code)
	}
	return errs
}

// request asks about the transactions of a batch. The error is a *kerr.Error.
func (c *Checker) request(addr string, batch []*question) (results, error) {
	if addr == nowhere || c.ctx.Err() != nil {
		return nil, kerr.CoordinatorNotAvailable
	}
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	var origins tracing.Origins
	for _, q := range batch {
		req.Transactions = append(req.Transactions, q.transaction())
		origins.Add(q.Origin)
	}
	ctx, cancel := context.WithTimeout(origins.Context(c.ctx), c.cfg.Timeout)
	defer cancel()
	answer, err := c.pool.Do(ctx, addr, req)
	if err != nil {
		return nil, kerr.NetworkException
	}
	resp := answer.(*kmsg.AddPartitionsToTxnResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, err
	}
	all := results{}
	for _, t := range resp.Transactions {
		codes := map[Partition]int16{}
		for _, topic := range t.Topics {
			for _, p := range topic.Partitions {
				codes[Partition{topic.Topic, p.Partition}] = p.ErrorCode
			}
		}
		all[t.TransactionalID] = codes
	}
	return all, nil
}

func (q *question) transaction() kmsg.AddPartitionsToTxnRequestTransaction {
	t := kmsg.NewAddPartitionsToTxnRequestTransaction()
	t.TransactionalID, t.ProducerID, t.ProducerEpoch, t.VerifyOnly = q.ID, q.ProducerID, q.ProducerEpoch, !q.Add
	for _, p := range q.partitions {
		at := slices.IndexFunc(t.Topics, func(known kmsg.AddPartitionsToTxnRequestTransactionTopic) bool { return known.Topic == p.Topic })
		if at < 0 {
			at = len(t.Topics)
			t.Topics = append(t.Topics, kmsg.AddPartitionsToTxnRequestTransactionTopic{Topic: p.Topic})
		}
		t.Topics[at].Partitions = append(t.Topics[at].Partitions, p.ID)
	}
	return t
}
