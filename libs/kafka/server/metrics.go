package server

import (
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The figures of a request, as Kafka's RequestMetrics name them. Times are kept in microseconds.
const (
	figureTotalTime  = iota // received to sent
	figureQueueTime         // received to handler started
	figureLocalTime         // in the handler, or until it answered
	figureRemoteTime        // after the handler had returned without an answer
	figureSendTime          // answered to sent: behind earlier answers and in the socket
	figureThrottleTime
	figureRequestBytes
	figureResponseBytes
	figures
)

var figureNames = [figures]struct{ name, help string }{
	{"totaltimems", "Milliseconds from a request received to its answer sent."},
	{"requestqueuetimems", "Milliseconds from a request received to its handler started."},
	{"localtimems", "Milliseconds in the handler."},
	{"remotetimems", "Milliseconds from the handler's return to the answer, when it waited for others."},
	{"responsesendtimems", "Milliseconds from the answer to its last byte sent, waiting for earlier answers included."},
	{"throttletimems", "Milliseconds of throttling by quotas."},
	{"requestbytes", "Bytes of requests."},
	{"responsebytes", "Bytes of responses."},
}

// statistics are the figures of one request name.
type statistics struct {
	name     string
	figures  [figures]histogram
	count    atomic.Uint64
	versions [maxVersions]atomic.Uint64
	windows  [figures]window // guarded by metrics.scrape
}

// maxVersions is how many versions of an API are counted apart; the last counts all beyond.
const maxVersions = 32

// window lets quantiles speak of the last minutes instead of the life of the process.
type window struct {
	older, newer           counts
	olderTotal, newerTotal uint64
	since                  time.Time // of newer
}

// quantileWindow is how long a snapshot serves: quantiles cover one to two of it.
const quantileWindow = time.Minute

var quantileShares = []float64{0.5, 0.75, 0.95, 0.98, 0.99, 0.999}

// Indices of followers' and consumers' fetches, which have names of their own beside Fetch.
const (
	fetchConsumer = maxAPIKey + 1
	fetchFollower = maxAPIKey + 2
)

// metrics are the figures of all servers that share a registerer.
type metrics struct {
	byKey [maxAPIKey + 3]atomic.Pointer[statistics]

	connections   *prometheus.GaugeVec
	created       *prometheus.CounterVec
	expired       prometheus.Counter
	refused       prometheus.Counter
	failed        prometheus.Counter
	panics        prometheus.Counter
	inFlightBytes prometheus.GaugeFunc
	heldBytes     atomic.Int64 // of all servers' budgets

	figureDescs  [figures]*prometheus.Desc
	requestsDesc *prometheus.Desc
	scrape       sync.Mutex
}

// newMetrics makes the metrics and registers them, or returns those that are registered already.
func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		connections: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kafka_server_socket_server_metrics_connection_count", Help: "Open connections."}, []string{"listener"}),
		created: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kafka_server_socket_server_metrics_connection_creation_total", Help: "Connections accepted."}, []string{"listener"}),
		expired: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "kafka_network_socketserver_expiredconnectionskilledcount", Help: "Connections closed after connections.max.idle.ms."}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "kafka_network_socketserver_refusedconnections_total", Help: "Connections closed when accepted, over max.connections.per.ip."}),
		failed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "kafka_network_socketserver_failedconnections_total", Help: "Connections closed over a request that could not be decoded, served or answered."}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "kafka_network_socketserver_handlerpanics_total", Help: "Connections closed because a handler panicked."}),
	}
	m.inFlightBytes = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "kafka_network_socketserver_memorypoolused", Help: "Request bytes held in memory."},
		func() float64 { return float64(m.heldBytes.Load()) })
	const prefix = "kafka_network_requestmetrics_"
	for i, f := range figureNames {
		m.figureDescs[i] = prometheus.NewDesc(prefix+f.name, f.help, []string{"request"}, nil)
	}
	m.requestsDesc = prometheus.NewDesc(prefix+"requests_total", "Requests answered.", []string{"request", "version"}, nil)
	if reg == nil {
		return m
	}
	if err := reg.Register(m); err != nil {
		if known, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
			return known.ExistingCollector.(*metrics)
		}
		panic("server: " + err.Error())
	}
	return m
}

// opened and closed count connections.
func (m *metrics) opened(listener string) {
	m.connections.WithLabelValues(listener).Inc()
	m.created.WithLabelValues(listener).Inc()
}

func (m *metrics) closed(listener string) { m.connections.WithLabelValues(listener).Dec() }

// record counts a request whose answer was sent, sentNs after it was received.
func (m *metrics) record(r *Request, sentNs int64) {
	m.statistics(int(r.Key), r.route.name).record(r, sentNs)
	if kmsg.Key(r.Key) != kmsg.Fetch {
		return
	}
	if r.follower {
		m.statistics(fetchFollower, "FetchFollower").record(r, sentNs)
	} else {
		m.statistics(fetchConsumer, "FetchConsumer").record(r, sentNs)
	}
}

func (m *metrics) statistics(index int, name string) *statistics {
	if s := m.byKey[index].Load(); s != nil {
		return s
	}
	m.byKey[index].CompareAndSwap(nil, &statistics{name: name})
	return m.byKey[index].Load()
}

func (s *statistics) record(r *Request, sentNs int64) {
	s.count.Add(1)
	s.versions[min(int(r.Version), maxVersions-1)].Add(1)
	local := r.answered
	if returned := r.returned.Load(); returned > 0 {
		local = min(local, returned)
	}
	s.figures[figureTotalTime].record(sentNs / 1000)
	s.figures[figureQueueTime].record(r.started / 1000)
	s.figures[figureLocalTime].record((local - r.started) / 1000)
	s.figures[figureRemoteTime].record((r.answered - local) / 1000)
	s.figures[figureSendTime].record((sentNs - r.answered) / 1000)
	s.figures[figureRequestBytes].record(int64(r.requestBytes))
	s.figures[figureResponseBytes].record(r.size)
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(out chan<- *prometheus.Desc) {
	for _, c := range m.plain() {
		c.Describe(out)
	}
	for _, d := range m.figureDescs {
		out <- d
	}
	out <- m.requestsDesc
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	for _, c := range m.plain() {
		c.Collect(out)
	}
	m.scrape.Lock()
	defer m.scrape.Unlock()
	now := time.Now()
	for i := range m.byKey {
		if s := m.byKey[i].Load(); s != nil {
			m.collect(s, now, out)
		}
	}
}

func (m *metrics) plain() []prometheus.Collector {
	return []prometheus.Collector{m.connections, m.created, m.expired, m.refused, m.failed, m.panics, m.inFlightBytes}
}

func (m *metrics) collect(s *statistics, now time.Time, out chan<- prometheus.Metric) {
	total := s.count.Load()
	for i := range s.figures {
		scale := 1.0
		if i <= figureThrottleTime {
			scale = 1.0 / 1000
		}
		quantiles := make(map[float64]float64, len(quantileShares))
		for k, v := range s.windows[i].quantiles(s.figures[i].counts(), total, now) {
			quantiles[quantileShares[k]] = v * scale
		}
		sum := float64(s.figures[i].sum.Load()) * scale
		out <- prometheus.MustNewConstSummary(m.figureDescs[i], total, sum, quantiles, s.name)
	}
	for v := range s.versions {
		if n := s.versions[v].Load(); n > 0 {
			out <- prometheus.MustNewConstMetric(m.requestsDesc, prometheus.CounterValue, float64(n), s.name, strconv.Itoa(v))
		}
	}
}

// quantiles gives those of the values since the older snapshot, and renews the snapshots.
func (w *window) quantiles(current *counts, total uint64, now time.Time) []float64 {
	if now.Sub(w.since) >= quantileWindow {
		w.older, w.olderTotal = w.newer, w.newerTotal
		w.newer, w.newerTotal, w.since = *current, total, now
	}
	return current.quantiles(&w.older, total-w.olderTotal, quantileShares)
}
