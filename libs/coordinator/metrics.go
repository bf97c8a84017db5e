package coordinator

import "github.com/prometheus/client_golang/prometheus"

// metrics have the names that JMX exporter configurations give those of Kafka's coordinators
// (kafka.server:type=group-coordinator-metrics), where Kafka has them.
type metrics struct {
	prefix     string
	collectors []prometheus.Collector

	load, processing, purgatory, append, batchBytes prometheus.Histogram
	appendFailures, refusedBatches, reloads         prometheus.Counter
	refused                                         *prometheus.CounterVec
}

func newMetrics(name string) *metrics {
	m := &metrics{prefix: "kafka_server_" + name + "_coordinator_metrics_"}
	seconds := prometheus.ExponentialBuckets(25e-6, 4, 10) // 25 µs to 6.5 s
	m.load = m.histogram("partition_load_time_seconds", "Time to fence and load a shard.", prometheus.ExponentialBuckets(1e-3, 4, 9))
	m.processing = m.histogram("event_processing_time_seconds", "Time that an operation took to run.", seconds)
	m.purgatory = m.histogram("event_purgatory_time_seconds", "Time that an answer waited for the log.", seconds)
	m.append = m.histogram("batch_flush_time_seconds", "Time until a batch was committed.", seconds)
	m.batchBytes = m.histogram("batch_size_bytes", "Size of batches.", prometheus.ExponentialBuckets(128, 4, 8))
	m.appendFailures = m.counter("append_failures_total", "Appends that failed and were tried again.")
	m.refusedBatches = m.counter("refused_batches_total", "Batches that the log refused for good.")
	m.reloads = m.counter("partition_reloads_total", "Shards loaded again after a failure.")
	m.refused = prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.prefix + "refused_operations_total",
		Help: "Operations refused before they ran."}, []string{"error"})
	m.collectors = append(m.collectors, m.refused)
	return m
}

func (m *metrics) histogram(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: m.prefix + name, Help: help, Buckets: buckets})
	m.collectors = append(m.collectors, h)
	return h
}

func (m *metrics) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: m.prefix + name, Help: help})
	m.collectors = append(m.collectors, c)
	return c
}

// register adds the metrics, and gauges of what count returns.
func (m *metrics) register(r prometheus.Registerer, count func() [states]int) error {
	for st, name := range map[state]string{stateLoading: "loading", stateActive: "active", stateFailed: "failed"} {
		m.collectors = append(m.collectors, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: m.prefix + "num_partitions",
			Help: "Shards of this node.", ConstLabels: prometheus.Labels{"state": name}}, func() float64 { return float64(count()[st]) }))
	}
	for i, c := range m.collectors {
		if err := r.Register(c); err != nil {
			m.collectors = m.collectors[:i]
			m.unregister(r)
			return err
		}
	}
	return nil
}

func (m *metrics) unregister(r prometheus.Registerer) {
	for _, c := range m.collectors {
		r.Unregister(c)
	}
}
