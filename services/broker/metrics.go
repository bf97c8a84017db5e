package broker

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cauce-stream/cauce/libs/log/logdir"
	"github.com/cauce-stream/cauce/services/broker/internal/fetch"
	"github.com/cauce-stream/cauce/services/broker/internal/move"
	"github.com/cauce-stream/cauce/services/broker/internal/partition"
)

// collector reads the broker's figures when they are asked for. Names are what the usual rules of jmx_exporter make
// of Kafka's MBeans.
type collector struct {
	parts   *partition.Set
	logs    *logdir.Set
	fetches *fetch.Service
	moves   *move.Set
	throttles
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
	underMinISR     = describe("kafka_server_replicamanager_underminisrpartitioncount", "Led partitions with fewer replicas in sync than min.insync.replicas.")
	reassigning     = describe("kafka_server_replicamanager_reassigningpartitions", "Led partitions that replicas come to or go from.")
	atMinISR        = describe("kafka_server_replicamanager_atminisrpartitioncount", "Led partitions with just min.insync.replicas in sync.")
	isrExpands      = describe("kafka_server_replicamanager_isrexpands_total", "Times that replicas joined those in sync.")
	isrShrinks      = describe("kafka_server_replicamanager_isrshrinks_total", "Times that replicas left those in sync.")
	maxLag          = describe("kafka_server_replicafetchermanager_maxlag", "Most committed records that a followed partition lacked at its last fetch.")
	offlineReplicas = describe("kafka_server_replicamanager_offlinereplicacount", "Partitions whose log is offline.")
	logSize         = describe("kafka_log_log_size", "Bytes of a log's segments.", "topic", "partition")
	logSegments     = describe("kafka_log_log_numlogsegments", "Segments of a log.", "topic", "partition")
	logStart        = describe("kafka_log_log_logstartoffset", "First offset of a log.", "topic", "partition")
	logEnd          = describe("kafka_log_log_logendoffset", "Offset that the next record gets.", "topic", "partition")
	stableLag       = describe("kafka_cluster_partition_laststableoffsetlag", "Committed records that an open transaction keeps from readers of what is committed.", "topic", "partition")
	leaderRate      = describe("kafka_server_leaderreplication_byte_rate", "Bytes per second of throttled replicas that followers fetched here.")
	followerRate    = describe("kafka_server_followerreplication_byte_rate", "Bytes per second of throttled replicas that were fetched.")
	moveRate        = describe("kafka_server_alterlogdirsreplication_byte_rate", "Bytes per second that replicas moved between log directories.")
	moving          = describe("cauce_broker_moving_replicas", "Replicas that move between log directories.")
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
	var hosted, offline, lag int64
	var count led
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
			count.add(p)
			lag = max(lag, p.Lag())
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
			gauge(stableLag, max(l.HighWatermark()-l.StableOffset(), 0), t.Name, id)
		}
	}
	gauge(partitionCount, hosted)
	gauge(leaderCount, count.all)
	gauge(underReplicated, count.underReplicated)
	gauge(underMinISR, count.underMin)
	gauge(atMinISR, count.atMin)
	gauge(reassigning, count.reassigning)
	gauge(maxLag, lag)
	expands, shrinks := c.parts.ISRChanges()
	counter(isrExpands, expands)
	counter(isrShrinks, shrinks)
	gauge(offlineReplicas, offline)
	gauge(offlineDirs, int64(c.logs.Failed()))
	now := nowMs()
	gauge(leaderRate, int64(c.leader.Rate(now)))
	gauge(followerRate, int64(c.follower.Rate(now)))
	gauge(moveRate, int64(c.throttles.moves.Rate(now)))
	gauge(moving, int64(c.moves.Moving()))
	sessions, _, evicted := c.fetches.SessionStats()
	gauge(fetchSessions, int64(sessions))
	counter(sessionsEvicted, evicted)
}

// led counts the partitions that this broker leads.
type led struct{ all, underReplicated, underMin, atMin, reassigning int64 }

func (c *led) add(p *partition.Partition) {
	have, need, leads := p.InSync()
	if !leads {
		return
	}
	c.all++
	state := p.State()
	if have < len(state.Replicas)-len(state.AddingReplicas) {
		c.underReplicated++
	}
	if state.Reassigning() {
		c.reassigning++
	}
	switch {
	case have < need:
		c.underMin++
	case have == need:
		c.atMin++
	}
}
