package trace

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
)

// Trace is what happened for one cause, as a tree: each span follows its parent.
type Trace struct {
	ID         string `json:"trace_id"`
	StartUs    int64  `json:"start_us"` // microseconds since 1970
	DurationUs int64  `json:"duration_us"`
	Spans      []Span `json:"spans"`
}

// Span is one piece of work.
type Span struct {
	ID         string            `json:"span_id"`
	Parent     string            `json:"parent_id,omitempty"`
	Depth      int               `json:"depth"`
	Service    string            `json:"service"`
	Operation  string            `json:"operation"`
	StartUs    int64             `json:"start_us"`
	DurationUs int64             `json:"duration_us"`
	Error      string            `json:"error,omitempty"`
	Links      []Link            `json:"links,omitempty"`
	Tags       map[string]string `json:"tags,omitempty"`
}

// Link is a span of this or another trace that has to do with one, but is not its parent.
type Link struct {
	TraceID string `json:"trace_id"`
	SpanID  string `json:"span_id"`
}

func (t *Trace) add(s Span) {
	end := s.StartUs + s.DurationUs
	if len(t.Spans) == 0 {
		t.StartUs, t.DurationUs = s.StartUs, s.DurationUs
	} else {
		end = max(end, t.StartUs+t.DurationUs)
		t.StartUs = min(t.StartUs, s.StartUs)
		t.DurationUs = end - t.StartUs
	}
	t.Spans = append(t.Spans, s)
}

const (
	// linesMax bounds what a table shows of a trace; JSON has it all.
	linesMax = 500
	// nameMin and barsMin are the least columns for a span's name and its bar.
	nameMin, barsMin = 24, 10
	// columnsMin is the least that a waterfall is drawn for.
	columnsMin = 60
	gap        = "  "
)

// write draws the trace in so many columns: what each span is, when it began, what it took, and a bar for it.
func (t *Trace) write(w io.Writer, columns int) error {
	columns = max(columns, columnsMin)
	shown := t.Spans[:min(len(t.Spans), linesMax)]
	services := map[string]bool{}
	for i := range t.Spans {
		services[t.Spans[i].Service] = true
	}
	began := time.UnixMicro(t.StartUs).UTC().Format("2006-01-02T15:04:05.000Z")
	if _, err := fmt.Fprintf(w, "trace %s  %s  %s  spans: %d  services: %d\n\n", t.ID, began, words(t.DurationUs), len(t.Spans), len(services)); err != nil {
		return err
	}
	const afterWidth, tookWidth = 9, 9
	serviceWidth, nameWidth := len("SERVICE"), len("SPAN")
	for i := range shown {
		serviceWidth = max(serviceWidth, utf8.RuneCountInString(shown[i].Service))
		nameWidth = max(nameWidth, utf8.RuneCountInString(shown[i].name()))
	}
	serviceWidth = min(serviceWidth, columns/5)
	left := columns - serviceWidth - afterWidth - tookWidth - 4*len(gap)
	nameWidth = min(nameWidth, max(nameMin, left-max(barsMin, left/3)))
	bars := max(barsMin, left-nameWidth)

	line := func(service, name, after, took, bar string) error {
		text := fit(service, serviceWidth) + gap + fit(name, nameWidth) + gap + pad(after, afterWidth) + gap + pad(took, tookWidth) + gap + bar
		_, err := fmt.Fprintln(w, strings.TrimRight(text, " "))
		return err
	}
	if err := line("SERVICE", "SPAN", "AFTER", "TOOK", ""); err != nil {
		return err
	}
	for i := range shown {
		s := &shown[i]
		if err := line(s.Service, s.name(), words(s.StartUs-t.StartUs), words(s.DurationUs), t.bar(s, bars)); err != nil {
			return err
		}
	}
	return t.writeRest(w, len(shown))
}

// writeRest tells what went wrong, which the waterfall has no room for, and what was left out.
func (t *Trace) writeRest(w io.Writer, shown int) error {
	table := output.NewTable(output.Left("SERVICE"), output.Left("SPAN"), output.Left("FAILED WITH"))
	for i := range t.Spans {
		if s := &t.Spans[i]; s.Error != "" {
			table.Row(s.Service, s.Operation, s.Error)
		}
	}
	if more := len(t.Spans) - shown; more > 0 {
		if _, err := fmt.Fprintf(w, "and %d more: -o json has them all\n", more); err != nil {
			return err
		}
	}
	if table.Empty() {
		return nil
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return table.Write(w)
}

// name is a span's place in the tree and what it did; ! has failed, +N is linked to others.
func (s *Span) name() string {
	text := strings.Repeat("  ", s.Depth)
	if s.Error != "" {
		text += "! "
	}
	text += s.Operation
	if len(s.Links) > 0 {
		text += fmt.Sprintf(" +%d", len(s.Links))
	}
	return text
}

// bar is where in the trace's time a span lies. One that takes next to nothing is seen too.
func (t *Trace) bar(s *Span, width int) string {
	whole := max(t.DurationUs, 1)
	from := min(int((s.StartUs-t.StartUs)*int64(width)/whole), width-1)
	to := min(max(int((s.StartUs-t.StartUs+s.DurationUs)*int64(width)/whole), from+1), width)
	mark := "━"
	if s.Error != "" {
		mark = "×"
	}
	return strings.Repeat(" ", from) + strings.Repeat(mark, to-from)
}

// words is a time in microseconds in the unit that it is read in best.
func words(us int64) string {
	switch {
	case us < 1000:
		return fmt.Sprintf("%dµs", us)
	case us < 1_000_000:
		return fmt.Sprintf("%.2fms", float64(us)/1e3)
	}
	return fmt.Sprintf("%.2fs", float64(us)/1e6)
}

// fit cuts or pads a text to a width.
func fit(text string, width int) string {
	runes := []rune(text)
	if len(runes) > width {
		return string(runes[:width-1]) + "…"
	}
	return text + strings.Repeat(" ", width-len(runes))
}

// pad puts a text on the right of a width.
func pad(text string, width int) string {
	return strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text))) + text
}
