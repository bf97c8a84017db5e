package broker

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cauce-stream/cauce/libs/log/logdir"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/broker/internal/fetch"
	"github.com/cauce-stream/cauce/services/broker/internal/partition"
)

// collector reads the broker's figures when they are asked for. Names are what the usual rules of jmx_exporter make
// of Kafka's MBeans.
type collector struct {
	nodeID  int32
	parts   *partition.Set
	logs    *logdir.Set
	fetches *fetch.Service
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	messagesIn      = describe("kafka_server_brokertopicmetrics_messagesin_total", "Records appended by producers.", "topic")
	bytesIn         = describe("kafka_server_brokertopicmetrics_bytesin_total", "Bytes appended by producers.", "topic")
	bytesOut        = describe("kafka_server_brokertopicmetrics_bytesout_total", "Bytes of records sent to consumers.", "topic")
	failedProduces  = describe("kafka_server_brokertopicmetrics_failedproducerequests_total", "Appends to a partition that were refused.", "topic")
	failedFetches   = describe("kafka_server_brokertopicmetrics_failedfetchrequests_total", "Reads of a partition that were refused.", "topic")
	partitionCount  = describe("kafka_server_replicamanager_partitioncount", "Partitions hosted by this broker.")
	leaderCount     = describe("kafka_server_replicamanager_leadercount", "Partitions led by this broker.")
	underReplicated = describe("kafka_server_replicamanager_underreplicatedpartitions", "Led partitions with replicas out of sync.")
	offlineReplicas = describe("kafka_server_replicamanager_offlinereplicacount", "Partitions whose log is offline.")
	logSize         = describe("kafka_log_log_size", "Bytes of a log's segments.", "topic", "partition")
	logSegments     = describe("kafka_log_log_numlogsegments", "Segments of a log.", "topic", "partition")
	logStart        = describe("kafka_log_log_logstartoffset", "First offset of a log.", "topic", "partition")
	logEnd          = describe("kafka_log_log_logendoffset", "Offset that the next record gets.", "topic", "partition")
	offlineDirs     = describe("kafka_log_logmanager_offlinelogdirectorycount", "Log directories that failed.")
	fetchSessions   = describe("kafka_server_fetchsessioncache_numincrementalfetchsessions", "Fetch sessions kept.")
	sessionsEvicted = describe("kafka_server_fetchsessioncache_incrementalfetchsessionevictions_total", "Fetch sessions evicted for newer ones.")
)

// Describe sends nothing: the collector is unchecked, as its topics come and go.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

func (c *collector) Collect(out chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, v int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge := func(d *prometheus.Desc, v int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	var hosted, led, under, offline int64
	for t := range c.parts.Topics() {
		n := t.Counters()
		counter(messagesIn, n.MessagesIn.Load(), t.Name)
		counter(bytesIn, n.BytesIn.Load(), t.Name)
		counter(bytesOut, n.BytesOut.Load(), t.Name)
		counter(failedProduces, n.FailedProduceRequests.Load(), t.Name)
		counter(failedFetches, n.FailedFetchRequests.Load(), t.Name)
		for _, p := range t.Partitions() {
			if p == nil {
				continue
			}
			hosted++
			led, under = countState(p.State(), c.nodeID, led, under)
			l, err := p.Log()
			if err != nil || l.Err() != nil {
				offline++
				continue
			}
			id := p.Label()
			gauge(logSize, l.SizeBytes(), t.Name, id)
			gauge(logSegments, int64(l.SegmentCount()), t.Name, id)
			gauge(logStart, l.StartOffset(), t.Name, id)
			gauge(logEnd, l.EndOffset(), t.Name, id)
		}
	}
	gauge(partitionCount, hosted)
	gauge(leaderCount, led)
	gauge(underReplicated, under)
	gauge(offlineReplicas, offline)
	var failed int64
	for _, dir := range c.logs.Describe() {
		if dir.Err != nil {
			failed++
		}
	}
	gauge(offlineDirs, failed)
	sessions, _, evicted := c.fetches.SessionStats()
	gauge(fetchSessions, int64(sessions))
	counter(sessionsEvicted, evicted)
}

func countState(state *metadata.Partition, node int32, led, under int64) (int64, int64) {
	if state.Leader != node {
		return led, under
	}
	if len(state.ISR) < len(state.Replicas) {
		under++
	}
	return led + 1, under
}
