package txncoord

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/txncoord/internal/schema"
	"github.com/cauce-stream/cauce/services/txncoord/internal/shard"
)

// metrics are what the coordinator counts besides its runtime.
type metrics struct {
	ends       *prometheus.CounterVec
	collectors []prometheus.Collector
	registered prometheus.Registerer
}

// newMetrics counts with census, and says what waits for markers with backlog.
func newMetrics(census func() shard.Census, backlog func() (transactions, partitions int)) *metrics {
	m := &metrics{ends: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "cauce_transaction_ends_total",
		Help: "Transactions that were decided, by why: commit, abort, timeout, or fenced by another producer.",
	}, []string{"reason"})}
	for _, reason := range []shard.Reason{shard.Committed, shard.Aborted, shard.TimedOut, shard.Fenced} {
		m.ends.WithLabelValues(string(reason))
	}
	m.collectors = []prometheus.Collector{m.ends, &censusCollector{census}}
	gauge := func(name, help string, value func() int) {
		m.collectors = append(m.collectors, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value()) }))
	}
	gauge("cauce_transaction_marker_backlog_transactions", "Transactions that are decided and wait for markers.",
		func() int { n, _ := backlog(); return n })
	gauge("cauce_transaction_marker_backlog_partitions", "Markers that are not written yet.",
		func() int { _, n := backlog(); return n })
	return m
}

func (m *metrics) register(r prometheus.Registerer) error {
	for i, c := range m.collectors {
		if err := r.Register(c); err != nil {
			for _, c := range m.collectors[:i] {
				r.Unregister(c)
			}
			return err
		}
	}
	m.registered = r
	return nil
}

func (m *metrics) unregister() {
	if m.registered == nil {
		return
	}
	for _, c := range m.collectors {
		m.registered.Unregister(c)
	}
}

func (m *metrics) decided(r shard.Reason) { m.ends.WithLabelValues(string(r)).Inc() }

var (
	byStateDesc = prometheus.NewDesc("cauce_transactions", "Transactional ids of this node's shards by the state of their transaction.", []string{"state"}, nil)
	oldestDesc  = prometheus.NewDesc("cauce_transaction_oldest_seconds",
		"Age of the oldest transaction of this node's shards that is open, or that waits for its markers since it was decided; 0 for none.", []string{"phase"}, nil)
)

// censusCollector counts the transactions when it is asked.
type censusCollector struct{ census func() shard.Census }

func (c *censusCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- byStateDesc
	ch <- oldestDesc
}

func (c *censusCollector) Collect(ch chan<- prometheus.Metric) {
	all := c.census()
	for state, n := range all.ByState {
		ch <- prometheus.MustNewConstMetric(byStateDesc, prometheus.GaugeValue, float64(n), schema.State(state).String())
	}
	ch <- prometheus.MustNewConstMetric(oldestDesc, prometheus.GaugeValue, age(all.OldestMs), "open")
	ch <- prometheus.MustNewConstMetric(oldestDesc, prometheus.GaugeValue, age(all.OldestDecidedMs), "completing")
}

// age is in seconds, of a time in ms since 1970; 0 for none.
func age(ms int64) float64 {
	if ms == 0 {
		return 0
	}
	return max(time.Since(time.UnixMilli(ms)).Seconds(), 0)
}

// census is that of all shards of this node.
func (s *Service) census() shard.Census {
	var all shard.Census
	for id := range s.image().Shards(metadata.TransactionStateTopic) {
		s.runtime.Run(trace.SpanContext{}, id, func(m *shard.Machine, _ time.Time) coordinator.Step {
			all.Add(m.Count())
			return coordinator.Step{Producer: coordinator.NoProducer}
		})
	}
	return all
}
