package groupcoord

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what the coordinator counts besides its runtime and its plugins.
type metrics struct {
	registry      prometheus.Registerer // nil when the metrics are nobody's
	assignments   *prometheus.HistogramVec
	failures      *prometheus.CounterVec
	classicEvents *prometheus.CounterVec
	lag           prometheus.Collector
}

// newMetrics counts by itself, but for what lag collects.
func newMetrics(lag prometheus.Collector) *metrics {
	return &metrics{
		lag: lag,
		assignments: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "cauce_group_assignment_seconds",
			Help:    "Time from when an assignor was asked to when its answer was taken or refused.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 8),
		}, []string{"assignor"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cauce_group_assignment_failures_total",
			Help: "Questions to assignors that brought no usable answer.",
		}, []string{"assignor"}),
		classicEvents: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cauce_group_classic_transitions_total",
			Help: "Transitions of classic groups by the state that they entered.",
		}, []string{"state"}),
	}
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.assignments, m.failures, m.classicEvents, m.lag}
}

// register adds all metrics or none.
func (m *metrics) register(r prometheus.Registerer) error {
	for i, c := range m.collectors() {
		if err := r.Register(c); err != nil {
			for _, c := range m.collectors()[:i] {
				r.Unregister(c)
			}
			return err
		}
	}
	m.registry = r
	return nil
}

// unregister makes room for the metrics of a coordinator to come.
func (m *metrics) unregister() {
	if m.registry == nil {
		return
	}
	for _, c := range m.collectors() {
		m.registry.Unregister(c)
	}
}

func (m *metrics) assigned(assignor string, took time.Duration, err error) {
	m.assignments.WithLabelValues(assignor).Observe(took.Seconds())
	if err != nil {
		m.failures.WithLabelValues(assignor).Inc()
	}
}
