package groupcoord

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what the coordinator counts besides its runtime and its plugins.
type metrics struct {
	assignments   *prometheus.HistogramVec
	failures      *prometheus.CounterVec
	classicEvents *prometheus.CounterVec
}

func newMetrics() *metrics {
	return &metrics{
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

func (m *metrics) register(r prometheus.Registerer) error {
	for _, c := range []prometheus.Collector{m.assignments, m.failures, m.classicEvents} {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}

func (m *metrics) assigned(assignor string, took time.Duration, err error) {
	m.assignments.WithLabelValues(assignor).Observe(took.Seconds())
	if err != nil {
		m.failures.WithLabelValues(assignor).Inc()
	}
}
