package trace

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
)

// answerMaxBytes bounds what is read of one answer.
const answerMaxBytes = 64 << 20

// jaeger asks the query API of Jaeger (the one of its user interface, /api).
type jaeger struct {
	base   string
	client *http.Client
}

// answered is the frame of every answer.
type answered struct {
	Data   json.RawMessage
	Errors []struct {
		Code int
		Msg  string
	}
}

type jaegerTrace struct {
	TraceID   string
	Spans     []jaegerSpan
	Processes map[string]struct{ ServiceName string }
}

type jaegerSpan struct {
	SpanID        string
	OperationName string
	References    []struct{ RefType, TraceID, SpanID string }
	StartTime     int64 // microseconds since 1970
	Duration      int64 // microseconds
	Tags          []struct {
		Key   string
		Value any
	}
	ProcessID string
}

// get asks and decodes the data of an answer.
func (j *jaeger) get(ctx context.Context, path string, query url.Values, data any) error {
	address := strings.TrimSuffix(j.base, "/") + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return exit.Usagef("--jaeger %s: %w", j.base, err)
	}
	resp, err := j.client.Do(q)
	if err != nil {
		return exit.With(exit.Unreachable, fmt.Errorf("nothing answers at --jaeger %s: %w", j.base, err))
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, answerMaxBytes+1))
	if err != nil {
		return fmt.Errorf("%s: %w", address, err)
	}
	if len(body) > answerMaxBytes {
		return fmt.Errorf("%s: the answer is longer than %d bytes", address, answerMaxBytes)
	}
	var answer answered
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("%s answers %s and no JSON of Jaeger's query API: %w", address, resp.Status, err)
	}
	if len(answer.Errors) > 0 {
		err := fmt.Errorf("%s: %s", address, answer.Errors[0].Msg)
		if answer.Errors[0].Code == http.StatusNotFound {
			return exit.With(exit.NotFound, err)
		}
		return err
	}
	return json.Unmarshal(answer.Data, data)
}

// trace is the one with that id.
func (j *jaeger) trace(ctx context.Context, id string) (Trace, error) {
	var found []jaegerTrace
	if err := j.get(ctx, "/api/traces/"+url.PathEscape(id), nil, &found); err != nil {
		return Trace{}, err
	}
	if len(found) == 0 {
		return Trace{}, exit.With(exit.NotFound, fmt.Errorf("there is no trace %s", id))
	}
	return treeOf(&found[0]), nil
}

// search says which trace is wanted when none is named.
type search struct {
	service, operation string
	within             time.Duration
}

// last is the newest trace of a service, or of all of them. Jaeger answers for one service at a time.
func (j *jaeger) last(ctx context.Context, s search) (Trace, error) {
	services := []string{s.service}
	if s.service == "" {
		if err := j.get(ctx, "/api/services", nil, &services); err != nil {
			return Trace{}, err
		}
		slices.Sort(services)
	}
	var newest Trace
	for _, service := range services {
		query := url.Values{"service": {service}, "limit": {"1"}, "lookback": {"custom"}}
		now := time.Now()
		query.Set("start", strconv.FormatInt(now.Add(-s.within).UnixMicro(), 10))
		query.Set("end", strconv.FormatInt(now.UnixMicro(), 10))
		if s.operation != "" {
			query.Set("operation", s.operation)
		}
		var found []jaegerTrace
		if err := j.get(ctx, "/api/traces", query, &found); err != nil {
			return Trace{}, err
		}
		for i := range found {
			if t := treeOf(&found[i]); len(newest.Spans) == 0 || t.StartUs > newest.StartUs {
				newest = t
			}
		}
	}
	if len(newest.Spans) == 0 {
		return Trace{}, exit.With(exit.NotFound, fmt.Errorf("there is no trace of the last %s; are there any? (OTEL_TRACES_EXPORTER, OTEL_TRACES_SAMPLER)", s.within))
	}
	return newest, nil
}

// spanOf is what is shown of a span, without its place in the tree.
func spanOf(t *jaegerTrace, s *jaegerSpan) Span {
	out := Span{ID: s.SpanID, Service: t.Processes[s.ProcessID].ServiceName, Operation: s.OperationName, StartUs: s.StartTime, DurationUs: s.Duration}
	for _, r := range s.References {
		switch {
		case r.RefType == "CHILD_OF" && r.TraceID == t.TraceID && out.Parent == "":
			out.Parent = r.SpanID
		default:
			out.Links = append(out.Links, Link{r.TraceID, r.SpanID})
		}
	}
	for _, tag := range s.Tags {
		text := fmt.Sprint(tag.Value)
		switch tag.Key {
		case "error":
			if text == "true" && out.Error == "" {
				out.Error = "error"
			}
		case "otel.status_description":
			out.Error = text
		default:
			if out.Tags == nil {
				out.Tags = map[string]string{}
			}
			out.Tags[tag.Key] = text
		}
	}
	return out
}

// treeOf puts the spans in order: each behind its parent, siblings by their start. A span whose parent is not there stands on top.
func treeOf(t *jaegerTrace) Trace {
	spans := make([]Span, 0, len(t.Spans))
	known := make(map[string]bool, len(t.Spans))
	for i := range t.Spans {
		if s := spanOf(t, &t.Spans[i]); !known[s.ID] {
			known[s.ID] = true
			spans = append(spans, s)
		}
	}
	slices.SortStableFunc(spans, func(a, b Span) int {
		return cmp.Or(cmp.Compare(a.StartUs, b.StartUs), cmp.Compare(b.DurationUs, a.DurationUs))
	})
	children := map[string][]int{}
	for i, s := range spans {
		if !known[s.Parent] || s.Parent == s.ID {
			children[""] = append(children[""], i)
		} else {
			children[s.Parent] = append(children[s.Parent], i)
		}
	}
	out := Trace{ID: t.TraceID, Spans: make([]Span, 0, len(spans))}
	placed := make([]bool, len(spans))
	var place func(list []int, depth int)
	place = func(list []int, depth int) {
		for _, i := range list {
			if placed[i] {
				continue
			}
			placed[i] = true
			spans[i].Depth = depth
			out.add(spans[i])
			place(children[spans[i].ID], depth+1)
		}
	}
	place(children[""], 0)
	for i := range spans { // spans that are each other's parents
		place([]int{i}, 0)
	}
	return out
}
