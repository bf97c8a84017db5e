package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/plugins/connectors/internal/payload"
)

const (
	// maxPutWait is for how long a Put tries again what fails, before it leaves that to the worker.
	maxPutWait = time.Second
	// maxRefusalBytes is what is read of an answer, for what it says of a record.
	maxRefusalBytes = 4 << 10
)

type sinkTask struct {
	context                   *plugin.SinkContext
	client                    *client
	to                        target
	method, nulls             string
	header                    http.Header
	batchSize, batchBytes     int
	prefix, suffix, separator string
	retries                   retries
	// done is up to where, by partition, the records are written that are being put again.
	done map[plugin.TopicPartition]int64
}

// Start sends nothing.
func (t *sinkTask) Start(_ context.Context, c *plugin.SinkContext, config map[string]string) error {
	v, err := sinkDefinition.Parse(config)
	if err == nil {
		err = checkSink(v).Err()
	}
	if err != nil {
		return err
	}
	t.context, t.done = c, map[plugin.TopicPartition]int64{}
	t.method, t.nulls = strings.ToUpper(v.String(methodKey)), strings.ToLower(v.String(nullsKey))
	t.header = http.Header{"Content-Type": {v.String(contentTypeKey)}}
	t.batchSize, t.batchBytes = int(v.Int(batchKey)), int(v.Int(batchBytesKey))
	t.prefix, t.suffix, t.separator = untrimmed(config, v, prefixKey), untrimmed(config, v, suffixKey), untrimmed(config, v, separatorKey)
	if t.to, err = parseTarget(urlText(v), topicName, keyName); err != nil {
		return err
	}
	if t.retries, err = newRetries(v); err != nil {
		return err
	}
	t.client, err = newClient(v, false)
	return err
}

// untrimmed is a text with the blanks around it: a line break may be all that it is.
func untrimmed(config map[string]string, v configdef.Values, key string) string {
	text, given := config[key]
	if !given {
		text = v.String(key)
	}
	return escapes.Replace(text)
}

// Put returns when all is written. What fails for now is tried again here if that is soon, and else when it is called with the same
// records: it goes on behind those that are written.
func (t *sinkTask) Put(ctx context.Context, records []plugin.SinkRecord) error {
	deadline := time.Now().Add(maxPutWait)
	for {
		if err := t.retries.Wait(ctx, time.Until(deadline)); err != nil {
			return err
		}
		err := passing{fmt.Errorf("it is too early for the next try of what has failed %d times", t.retries.Failed())}
		if t.retries.Left(time.Now()) == 0 {
			failure := t.writeAll(ctx, records)
			if !errors.As(failure, &err) {
				return failure
			}
		}
		left := t.retries.Left(time.Now())
		if left > time.Until(deadline) {
			t.context.NextPut(left)
			return plugin.Retriable(err.error)
		}
		slog.InfoContext(ctx, "a request has failed and is tried again", "error", err, "failed", t.retries.Failed(), "wait_ms", left.Milliseconds())
	}
}

// passing marks an error after which the same is tried again.
type passing struct{ error }

func (p passing) Unwrap() error { return p.error }

func (t *sinkTask) writeAll(ctx context.Context, records []plugin.SinkRecord) error {
	for _, run := range byPartition(records, t.done) {
		if err := t.write(ctx, run); err != nil {
			return err
		}
	}
	clear(t.done)
	return nil
}

// byPartition returns the records of each partition that are not done, in their order.
func byPartition(records []plugin.SinkRecord, done map[plugin.TopicPartition]int64) [][]*plugin.SinkRecord {
	places := map[plugin.TopicPartition]int{}
	var runs [][]*plugin.SinkRecord
	for i := range records {
		r := &records[i]
		if next, some := done[r.Original]; some && r.Offset < next {
			continue
		}
		place, known := places[r.Original]
		if !known {
			place = len(runs)
			places[r.Original] = place
			runs = append(runs, nil)
		}
		runs[place] = append(runs[place], r)
	}
	return runs
}

// item is a record as it is sent.
type item struct {
	record *plugin.SinkRecord
	url    string
	body   []byte
	remove bool // by a DELETE
}

// write writes the records of one partition.
func (t *sinkTask) write(ctx context.Context, run []*plugin.SinkRecord) error {
	var batch []item
	size := 0
	for _, r := range run {
		one, wanted, err := t.item(r)
		if err != nil {
			// Those before it come first, so that the order is that of the records whatever becomes of this one.
			if err := t.send(ctx, batch); err != nil {
				return err
			}
			batch, size = nil, 0
			if err := t.report(r, err); err != nil {
				return fmt.Errorf("making a request of %s: %w", name([]item{{record: r}}), err)
			}
			continue
		}
		if !wanted {
			continue
		}
		if len(batch) > 0 && (len(batch) == t.batchSize || size+len(one.body)+len(t.separator) > t.batchBytes || one.remove || batch[0].remove || one.url != batch[0].url) {
			if err := t.send(ctx, batch); err != nil {
				return err
			}
			batch, size = nil, 0
		}
		batch, size = append(batch, one), size+len(one.body)+len(t.separator)
	}
	return t.send(ctx, batch)
}

// item makes of a record what is sent of it; wanted says whether anything is.
func (t *sinkTask) item(r *plugin.SinkRecord) (one item, wanted bool, err error) {
	one.record = r
	if r.Value.V == nil {
		switch t.nulls {
		case nullsIgnore:
			return one, false, nil
		case nullsFail:
			return one, false, fmt.Errorf("it has no value, and %s is %s", nullsKey, nullsFail)
		}
		one.remove = true
	} else if one.body, err = payload.Append(nil, r.Value); err != nil {
		return one, false, err
	}
	one.url, err = t.to.expand(func(name string) (string, error) {
		if name == topicName {
			return r.Topic, nil
		}
		if r.Key.V == nil {
			return "", errors.New("the record has no key")
		}
		text, err := payload.Append(nil, r.Key)
		return string(text), err
	})
	return one, err == nil, err
}

// send sends records by one request, and by several where some of them are refused.
func (t *sinkTask) send(ctx context.Context, batch []item) error {
	if len(batch) == 0 {
		return nil
	}
	first, last := batch[0].record, batch[len(batch)-1].record
	a, err := t.request(ctx, batch)
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return t.failed(fmt.Errorf("sending %s: %w", name(batch), err), 0)
	case a.status >= 200 && a.status < 300:
		t.retries.Succeed()
		t.done[last.Original] = last.Offset + 1
		return nil
	case t.retries.on.has(a.status):
		return t.failed(fmt.Errorf("sending %s: %s", name(batch), a.excerpt()), retryAfter(a.header, time.Now()))
	case a.status < 400 || a.status >= 500 || a.status == http.StatusUnauthorized || a.status == http.StatusProxyAuthRequired:
		return fmt.Errorf("sending %s: %s%s", name(batch), a.excerpt(), elsewhere(a))
	}
	t.retries.Succeed()
	if half := len(batch) / 2; half > 0 {
		if err := t.send(ctx, batch[:half]); err != nil {
			return err
		}
		return t.send(ctx, batch[half:])
	}
	if err := t.report(first, errors.New(a.excerpt())); err != nil {
		return fmt.Errorf("sending: %w", err)
	}
	return nil
}

// elsewhere is where an answer sends its reader.
func elsewhere(a *answer) string {
	if to := a.header.Get("Location"); to != "" && a.status < 400 {
		return fmt.Sprintf(": it sends elsewhere, to %.200q, where records are not sent", to)
	}
	return ""
}

// report hands a record over that cannot be written.
func (t *sinkTask) report(r *plugin.SinkRecord, fault error) error {
	if err := t.context.Report(r, fault); err != nil {
		return err
	}
	t.done[r.Original] = r.Offset + 1
	return nil
}

// failed has what has failed tried again, or fails the task when that was often enough.
func (t *sinkTask) failed(err error, least time.Duration) error {
	if !t.retries.Again(time.Now(), least) {
		return fmt.Errorf("after %d tries: %w", t.retries.Failed()+1, err)
	}
	return passing{err}
}

func (t *sinkTask) request(ctx context.Context, batch []item) (*answer, error) {
	method, body := t.method, batch[0].body
	if batch[0].remove {
		method = http.MethodDelete
	} else if t.batchSize > 1 {
		body = t.join(batch)
	}
	header := t.header.Clone()
	header.Set("Idempotency-Key", name(batch))
	for _, h := range batch[0].record.Headers {
		if h.Name == "traceparent" || h.Name == "tracestate" {
			if text, err := payload.Append(nil, h.Value); err == nil && validHeader(string(text)) {
				header.Set(h.Name, string(text))
			}
		}
	}
	return t.client.do(ctx, method, batch[0].url, header, body, maxRefusalBytes)
}

func (t *sinkTask) join(batch []item) []byte {
	size := len(t.prefix) + len(t.suffix) + len(batch)*len(t.separator)
	for _, one := range batch {
		size += len(one.body)
	}
	body := append(make([]byte, 0, size), t.prefix...)
	for i, one := range batch {
		if i > 0 {
			body = append(body, t.separator...)
		}
		body = append(body, one.body...)
	}
	return append(body, t.suffix...)
}

// name is by what receivers know a batch again: the place of a record, or of the first and the last one.
func name(batch []item) string {
	first, last := batch[0].record, batch[len(batch)-1].record
	text := first.Original.Topic + "-" + strconv.Itoa(int(first.Original.Partition)) + "-" + strconv.FormatInt(first.Offset, 10)
	if len(batch) > 1 {
		text += "-" + strconv.FormatInt(last.Offset, 10)
	}
	return text
}

// Open has nothing to do.
func (t *sinkTask) Open(context.Context, []plugin.TopicPartition) error { return nil }

// Close forgets how far the partitions are.
func (t *sinkTask) Close(_ context.Context, partitions []plugin.TopicPartition) error {
	for _, p := range partitions {
		delete(t.done, p)
	}
	return nil
}

// Stop ends the connections.
func (t *sinkTask) Stop() error {
	if t.client != nil {
		t.client.close()
	}
	return nil
}
