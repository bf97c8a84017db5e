package bench

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

const megabyte = 1e6

// meter counts records as they complete and tells once a second how it goes.
type meter struct {
	mu       sync.Mutex
	started  time.Time
	latency  bool // whether latencies are told
	interval window
	total    window
}

type window struct {
	records, bytes int64
	latency        histogram
}

func newMeter(latency bool) *meter { return &meter{started: time.Now(), latency: latency} }

// add counts one record of so many bytes. A negative latency is not counted.
func (m *meter) add(bytes int, latency time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.interval.records++
	m.interval.bytes += int64(bytes)
	if latency >= 0 {
		m.interval.latency.add(latency)
	}
}

// restart forgets everything counted so far, as at the end of a warm-up.
func (m *meter) restart() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.started = time.Now()
	m.interval, m.total = window{}, window{}
}

// turn ends an interval and returns it.
func (m *meter) turn() window {
	m.mu.Lock()
	defer m.mu.Unlock()
	ended := m.interval
	m.total.records += ended.records
	m.total.bytes += ended.bytes
	m.total.latency.merge(&ended.latency)
	m.interval = window{}
	return ended
}

// watch writes a line each second until ctx ends, restarting the meter once after warmup.
func (m *meter) watch(ctx context.Context, w io.Writer, warmup time.Duration) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	begin := time.Now()
	last := begin
	warm := time.NewTimer(warmup)
	defer warm.Stop()
	suffix := ""
	if warmup > 0 {
		suffix = "   warming up"
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-warm.C:
			if warmup > 0 {
				m.restart()
				last, suffix = time.Now(), ""
			}
		case now := <-ticker.C:
			fmt.Fprintln(w, m.turn().line(now.Sub(begin), now.Sub(last), m.latency)+suffix)
			last = now
		}
	}
}

// line words one interval: when it ended, throughput and latency.
func (w window) line(at, lasted time.Duration, latency bool) string {
	seconds := lasted.Seconds()
	text := fmt.Sprintf("%4ds %12.0f records/s %9.2f MB/s", int(at.Seconds()+0.5), float64(w.records)/seconds, float64(w.bytes)/megabyte/seconds)
	if latency && w.latency.total > 0 {
		text += fmt.Sprintf("   p50 %s  p99 %s  max %s ms", ms(w.latency.quantile(0.5)), ms(w.latency.quantile(0.99)), ms(w.latency.quantile(1)))
	}
	return text
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()*1000) }
