package httpapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/plugins/connectors/internal/backoff"
)

// place is the partition of the source.
type place struct {
	URL string `json:"url"` // as it was configured
}

// position is how far the source was read: by which request, and up to which record of its answer.
type position struct {
	// Offset is what the pages of a turn are asked with.
	Offset string `json:"offset"`
	// Next is the offset of the last record that was read, with which the next turn goes on.
	Next string `json:"next,omitempty"`
	// Page is which page of the turn it is: its URL, or the value of the parameter for it; empty for the first.
	Page string `json:"page,omitempty"`
	// Done is how many records of the page were read.
	Done int `json:"done,omitempty"`
	// ETag and Modified are those of the page. With no record done they are of an answer to the same request that was read whole.
	ETag     string `json:"etag,omitempty"`
	Modified string `json:"modified,omitempty"`
}

type sourceTask struct {
	client    *client
	to        target
	reading   reading
	topic     string
	parameter string // for the offset
	pages     string
	pageName  string // the parameter for the page
	interval  time.Duration
	maxBytes  int64
	batch     int
	retries   retries
	partition *plugin.SourcePartition
	at        position
	resumed   bool // at is where an earlier task was, in the middle of a page maybe
	due       time.Time
	left      []entry  // of the page, behind those that are done
	after     position // when the page is done
	afterTurn bool     // the page is the last of its turn
	page      position // of the page that left is of, with the ETag that it has now
}

// Start sends nothing.
func (t *sourceTask) Start(ctx context.Context, c *plugin.SourceContext, config map[string]string) error {
	v, err := sourceDefinition.Parse(config)
	if err == nil {
		err = checkSource(v).Err()
	}
	if err != nil {
		return err
	}
	t.topic, t.parameter, t.pages, t.pageName = v.String(topicKey), v.String(parameterKey), v.String(paginationKey), v.String(pageParameterKey)
	t.interval, t.maxBytes, t.batch = v.Millis(intervalKey), v.Int(answerBytesKey), int(v.Int(pollBatchKey))
	if t.reading, err = newReading(v); err != nil {
		return err
	}
	if t.to, err = parseTarget(urlText(v), offsetName); err != nil {
		return err
	}
	if t.retries, err = newRetries(v); err != nil {
		return err
	}
	if t.client, err = newClient(v, true); err != nil {
		return err
	}
	if t.partition, err = c.Partition(ctx, place{urlText(v)}); err != nil {
		return err
	}
	t.at.Offset = v.String(initialKey)
	t.resumed, err = t.partition.Offset(&t.at)
	return err
}

func newReading(v configdef.Values) (reading, error) {
	r := reading{values: v.String(valuesKey), hasKey: v.Has(keyPointerKey), hasOffset: v.Has(offsetPointerKey), hasCursor: v.Has(cursorPointerKey),
		hasPage: v.String(paginationKey) == pagesPointer}
	for key, to := range map[string]*pointer{recordsKey: &r.records, keyPointerKey: &r.key, offsetPointerKey: &r.offset, cursorPointerKey: &r.cursor, pagePointerKey: &r.page} {
		var err error
		if *to, err = parsePointer(v.String(key)); err != nil {
			return r, fmt.Errorf("%s: %w", key, err)
		}
	}
	return r, nil
}

// Poll returns records of an answer. It asks for the next one when there are none left.
func (t *sourceTask) Poll(ctx context.Context) ([]plugin.SourceRecord, error) {
	if len(t.left) > 0 {
		return t.take(), nil
	}
	if err := t.wait(ctx); err != nil {
		return nil, err
	}
	if err := t.ask(ctx); err != nil {
		return nil, err
	}
	if len(t.left) == 0 {
		t.turn()
		return nil, nil
	}
	return t.take(), nil
}

// take returns the next records of the page.
func (t *sourceTask) take() []plugin.SourceRecord {
	now := time.Now().UnixMilli()
	records := make([]plugin.SourceRecord, 0, min(len(t.left), t.batch))
	for len(t.left) > 0 && len(records) < t.batch {
		e := t.left[0]
		t.left[0], t.left = entry{}, t.left[1:]
		t.page.Done++
		if e.offset != "" {
			t.page.Next = e.offset
		}
		r := data.NewRecord(t.topic, e.key, e.value)
		r.TimestampMs = now
		at := t.page
		if len(t.left) == 0 {
			at = t.after
		}
		records = append(records, plugin.SourceRecord{Record: r, Source: t.partition, Offset: at})
	}
	if len(t.left) == 0 {
		t.turn()
	}
	return records
}

// turn goes on to the next page, or waits for the next turn.
func (t *sourceTask) turn() {
	t.at, t.resumed = t.after, false
	if t.afterTurn {
		t.due = time.Now().Add(t.interval)
	}
}

// wait waits until the next request is due.
func (t *sourceTask) wait(ctx context.Context) error {
	return backoff.Rest(ctx, max(time.Until(t.due), t.retries.Left(time.Now())))
}

// ask sends the request that is next, and reads its answer.
func (t *sourceTask) ask(ctx context.Context) error {
	to, err := t.url()
	if err != nil {
		return err
	}
	header := http.Header{"Accept": {"application/json"}}
	conditional := t.pages == pagesNone && t.at.Done == 0
	if conditional && t.at.ETag != "" {
		header.Set("If-None-Match", t.at.ETag)
	}
	if conditional && t.at.Modified != "" {
		header.Set("If-Modified-Since", t.at.Modified)
	}
	a, err := t.client.do(ctx, http.MethodGet, to, header, nil, t.maxBytes)
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return t.failed(fmt.Errorf("asking for what comes after offset %.100q: %w", t.at.Offset, err), 0)
	case t.retries.on.has(a.status):
		return t.failed(fmt.Errorf("asking for what comes after offset %.100q: %s", t.at.Offset, a.excerpt()), retryAfter(a.header, time.Now()))
	case a.status == http.StatusNotModified && conditional:
		t.retries.Succeed()
		t.after, t.afterTurn = t.at, true
		return nil
	case a.status < 200 || a.status > 299:
		return fmt.Errorf("asking for what comes after offset %.100q: %s", t.at.Offset, a.excerpt())
	case int64(len(a.body)) > t.maxBytes:
		return fmt.Errorf("the answer after offset %.100q has more than %d bytes, which is %s", t.at.Offset, t.maxBytes, answerBytesKey)
	}
	t.retries.Succeed()
	return t.read(ctx, a)
}

// failed has what has failed tried again, or fails the task when that was often enough.
func (t *sourceTask) failed(err error, least time.Duration) error {
	if !t.retries.Again(time.Now(), least) {
		return fmt.Errorf("after %d tries: %w", t.retries.Failed()+1, err)
	}
	return plugin.Retriable(err)
}

// url is that of the request that is next.
func (t *sourceTask) url() (string, error) {
	first, err := t.to.expand(func(string) (string, error) { return t.at.Offset, nil })
	if err != nil {
		return "", err
	}
	if t.parameter != "" && t.at.Offset != "" {
		first = withParameter(first, t.parameter, t.at.Offset)
	}
	switch {
	case t.at.Page == "":
		return first, nil
	case t.pageName == "":
		return onHost(first, t.at.Page)
	}
	return withParameter(first, t.pageName, t.at.Page), nil
}

// onHost resolves a reference, which must stay on the host: credentials go with it.
func onHost(base, reference string) (string, error) {
	from, err := url.Parse(base)
	if err != nil {
		return "", withoutURL(err)
	}
	to, err := from.Parse(reference)
	if err != nil {
		return "", fmt.Errorf("the next page is no URL: %w", withoutURL(err))
	}
	if !sameHost(from, to) {
		return "", fmt.Errorf("the next page is of %s://%s, and no credentials go there from %s", to.Scheme, to.Host, from.Host)
	}
	return to.String(), nil
}

// read takes an answer apart, and skips what is done of it.
func (t *sourceTask) read(ctx context.Context, a *answer) error {
	p, err := t.reading.read(a.body)
	if err != nil {
		return fmt.Errorf("the answer after offset %.100q, of type %q: %w", t.at.Offset, a.header.Get("Content-Type"), err)
	}
	if t.pages == pagesLink {
		p.next = nextLink(a.header.Values("Link"))
	}
	if p.next != "" && t.pageName == "" {
		if p.next, err = onHost(a.url.String(), p.next); err != nil {
			return err
		}
	}
	if len(p.next) > maxOffsetBytes {
		return fmt.Errorf("the name of the next page has %d bytes, more than %d", len(p.next), maxOffsetBytes)
	}
	if p.next != "" && p.next == t.at.Page {
		return fmt.Errorf("the page %.200q says that it comes after itself", p.next)
	}
	etag, modified := a.header.Get("ETag"), a.header.Get("Last-Modified")
	done := t.at.Done
	if t.resumed && done > 0 {
		if done = doneOf(t.at, p.records, etag, t.reading.hasOffset); done != t.at.Done {
			slog.WarnContext(ctx, "an answer is not what it was before the restart", "offset", t.at.Offset, "done", t.at.Done, "skipped", done)
		}
	}
	t.left = p.records[min(done, len(p.records)):]
	t.page = t.at
	t.page.Done, t.page.ETag, t.page.Modified = done, etag, modified
	t.after, t.afterTurn = following(t.at, p, etag, modified), p.next == ""
	return nil
}

// doneOf is how many records of an answer to skip, which may have changed since some of them were stored. Where it cannot know,
// records come again rather than not at all.
func doneOf(at position, records []entry, etag string, hasOffset bool) int {
	if !hasOffset {
		if at.ETag != "" && etag != "" && at.ETag != etag {
			return 0
		}
		return min(at.Done, len(records))
	}
	if at.Done <= len(records) && records[at.Done-1].offset == at.Next {
		return at.Done
	}
	for i := len(records) - 1; i >= 0; i-- {
		if records[i].offset == at.Next {
			return i + 1
		}
	}
	return 0
}

// following is where to go on when a page is done.
func following(at position, p page, etag, modified string) position {
	next := at.Next
	if n := len(p.records); n > 0 && p.records[n-1].offset != "" {
		next = p.records[n-1].offset
	}
	if p.next != "" {
		return position{Offset: at.Offset, Next: next, Page: p.next}
	}
	offset := at.Offset
	switch {
	case p.cursor != "":
		offset = p.cursor
	case next != "":
		offset = next
	}
	after := position{Offset: offset}
	if offset == at.Offset {
		after.ETag, after.Modified = etag, modified
	}
	return after
}

// Stop ends the connections.
func (t *sourceTask) Stop() error {
	if t.client != nil {
		t.client.close()
	}
	return nil
}
