package host

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// keptLatencies is how many of the latest calls the percentiles of List are taken from.
const keptLatencies = 512

// latencies are those of a plugin's latest calls.
type latencies struct {
	mu    sync.Mutex
	ring  [keptLatencies]time.Duration
	calls uint64
}

func (l *latencies) add(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ring[l.calls%keptLatencies] = d
	l.calls++
}

// percentiles returns the number of all calls and the 50th and 99th percentile of the latest, 0 when there was none.
func (l *latencies) percentiles() (calls uint64, p50, p99 time.Duration) {
	l.mu.Lock()
	sorted := slices.Clone(l.ring[:min(l.calls, keptLatencies)])
	calls = l.calls
	l.mu.Unlock()
	if len(sorted) == 0 {
		return 0, 0, 0
	}
	slices.Sort(sorted)
	return calls, sorted[len(sorted)*50/100], sorted[len(sorted)*99/100]
}

// metrics of all plugins.
type metrics struct {
	own      []func()                 // unregister those that this host has registered
	calls    *prometheus.CounterVec   // kind, plugin, outcome
	seconds  *prometheus.HistogramVec // kind, plugin
	restarts *prometheus.CounterVec   // file
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cauce_plugin_calls_total", Help: "Calls of plugins by outcome: ok, error, timeout, crash, too_large, unavailable, unknown.",
		}, []string{"kind", "plugin", "outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "cauce_plugin_call_seconds", Help: "Time that calls of plugins took, failed ones included.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 10),
		}, []string{"kind", "plugin"}),
		restarts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cauce_plugin_restarts_total", Help: "Starts of plugin processes in place of one that ended, by file.",
		}, []string{"file"}),
	}
	if r == nil {
		return m, nil
	}
	var err error
	m.calls, err = registered(m, r, m.calls, err)
	m.seconds, err = registered(m, r, m.seconds, err)
	m.restarts, err = registered(m, r, m.restarts, err)
	if err != nil {
		m.unregister()
		return nil, fmt.Errorf("metrics of plugins: %w", err)
	}
	return m, nil
}

// registered registers a collector, unless there was an error before. Hosts of one process count together.
func registered[C prometheus.Collector](m *metrics, r prometheus.Registerer, c C, before error) (C, error) {
	if before != nil {
		return c, before
	}
	err := r.Register(c)
	var earlier prometheus.AlreadyRegisteredError
	if errors.As(err, &earlier) {
		if shared, ok := earlier.ExistingCollector.(C); ok {
			return shared, nil
		}
	}
	if err == nil {
		m.own = append(m.own, func() { r.Unregister(c) })
	}
	return c, err
}

// unregister makes room for the metrics of a host to come. What was another host's stays.
func (m *metrics) unregister() {
	for _, unregister := range m.own {
		unregister()
	}
}
