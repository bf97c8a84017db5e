package worker

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cauce-stream/cauce/services/connect/internal/member"
	"github.com/cauce-stream/cauce/services/connect/internal/pipeline"
	"github.com/cauce-stream/cauce/services/connect/internal/sinktask"
	"github.com/cauce-stream/cauce/services/connect/internal/sourcetask"
	"github.com/cauce-stream/cauce/services/connect/internal/status"
	"github.com/cauce-stream/cauce/services/connect/internal/work"
)

// taskMetrics are what is counted of a task as long as the worker has it, through restarts.
type taskMetrics struct {
	errors pipeline.Metrics
	source sourcetask.Metrics
	sink   sinktask.Metrics
}

// metrics are those of what the worker runs. They have the names by which Prometheus knows those of Kafka's worker (its JMX exporter), so that
// dashboards made for that go on.
type metrics struct {
	registry prometheus.Registerer

	mu     sync.Mutex
	tasks  map[work.Item]*taskMetrics
	states map[work.Item]status.State
	// rebalances are those completed, epoch the last one's generation; leads is 1 while the worker leads.
	rebalances, epoch, leads float64
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{registry: r, tasks: map[work.Item]*taskMetrics{}, states: map[work.Item]status.State{}}
	if r == nil {
		return m, nil
	}
	return m, r.Register(m)
}

func (m *metrics) close() {
	if m.registry != nil {
		m.registry.Unregister(m)
	}
}

// of are the metrics of a task.
func (m *metrics) of(item work.Item) *taskMetrics {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tasks[item] == nil {
		m.tasks[item] = &taskMetrics{}
	}
	return m.tasks[item]
}

// say takes down what state something is in.
func (m *metrics) say(item work.Item, s status.State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.states[item] = s
}

// forget drops what is known of something that the worker no longer has.
func (m *metrics) forget(item work.Item) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.tasks, item)
	delete(m.states, item)
}

// regrouped counts a rebalance, unless it was the end of the membership.
func (m *metrics) regrouped(s member.Settlement) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.MemberID != "" {
		m.rebalances++
		m.epoch = float64(s.Generation)
	}
	if m.leads = 0; s.Leader {
		m.leads = 1
	}
}

// series is a metric of each task.
type series struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*taskMetrics) float64
}

func counter(name, help string, value func(*taskMetrics) int64) series {
	return newSeries(prometheus.CounterValue, name, help, func(t *taskMetrics) float64 { return float64(value(t)) })
}

func gauge(name, help string, value func(*taskMetrics) int64) series {
	return newSeries(prometheus.GaugeValue, name, help, func(t *taskMetrics) float64 { return float64(value(t)) })
}

// millis is a gauge of milliseconds out of nanoseconds.
func millis(name, help string, value func(*taskMetrics) int64) series {
	return newSeries(prometheus.GaugeValue, name, help, func(t *taskMetrics) float64 { return float64(value(t)) / 1e6 })
}

func newSeries(kind prometheus.ValueType, name, help string, value func(*taskMetrics) float64) series {
	return series{prometheus.NewDesc("kafka_connect_"+name, help, []string{"connector", "task"}, nil), kind, value}
}

// ofErrors are of every task, ofSources and ofSinks of tasks that have read anything in that direction.
var (
	ofErrors = []series{
		counter("task_error_metrics_total_record_failures", "Attempts at records that failed.", func(t *taskMetrics) int64 { return t.errors.Failures.Load() }),
		counter("task_error_metrics_total_record_errors", "Records that failed for good.", func(t *taskMetrics) int64 { return t.errors.Errors.Load() }),
		counter("task_error_metrics_total_records_skipped", "Records left out because they failed.", func(t *taskMetrics) int64 { return t.errors.Skipped.Load() }),
		counter("task_error_metrics_total_retries", "Further attempts at records.", func(t *taskMetrics) int64 { return t.errors.Retries.Load() }),
		counter("task_error_metrics_total_errors_logged", "Failures of records that were logged.", func(t *taskMetrics) int64 { return t.errors.Logged.Load() }),
		counter("task_error_metrics_deadletterqueue_produce_requests", "Records given to the dead letter queue.", func(t *taskMetrics) int64 { return t.errors.DeadLetterRequests.Load() }),
		counter("task_error_metrics_deadletterqueue_produce_failures", "Records that the dead letter queue did not take.", func(t *taskMetrics) int64 { return t.errors.DeadLetterFailures.Load() }),
		gauge("task_error_metrics_last_error_timestamp", "When a record failed last, in milliseconds since 1970; 0 for never.", func(t *taskMetrics) int64 { return t.errors.LastErrorMs.Load() }),
	}
	ofSources = []series{
		counter("source_task_metrics_source_record_poll_total", "Records polled of the source.", func(t *taskMetrics) int64 { return t.source.Polled.Load() }),
		counter("source_task_metrics_source_record_write_total", "Records written to topics.", func(t *taskMetrics) int64 { return t.source.Written.Load() }),
		gauge("source_task_metrics_source_record_active_count", "Records polled and neither stored nor left out yet.", func(t *taskMetrics) int64 { return t.source.Active.Load() }),
		counter("source_task_metrics_poll_batch_total", "Batches polled.", func(t *taskMetrics) int64 { return t.source.Polls.Load() }),
		counter("source_task_metrics_poll_batch_time_ns_total", "Nanoseconds spent waiting for batches.", func(t *taskMetrics) int64 { return t.source.PollNanos.Load() }),
		millis("source_task_metrics_poll_batch_max_time_ms", "Longest wait for a batch in milliseconds.", func(t *taskMetrics) int64 { return t.source.PollMaxNanos.Load() }),
		counter("source_task_metrics_offset_commit_success_total", "Times at which offsets were stored.", func(t *taskMetrics) int64 { return t.source.Commits.Load() }),
		counter("source_task_metrics_offset_commit_failure_total", "Times at which offsets could not be stored.", func(t *taskMetrics) int64 { return t.source.CommitFailures.Load() }),
		millis("source_task_metrics_offset_commit_max_time_ms", "Longest time that storing offsets took in milliseconds.", func(t *taskMetrics) int64 { return t.source.CommitMaxNanos.Load() }),
		counter("source_task_metrics_transactions_total", "Transactions committed.", func(t *taskMetrics) int64 { return t.source.Transactions.Load() }),
		counter("source_task_metrics_transaction_records_total", "Records of the transactions committed.", func(t *taskMetrics) int64 { return t.source.TransactionRecords.Load() }),
		gauge("source_task_metrics_transaction_size_max", "Records of the largest transaction.", func(t *taskMetrics) int64 { return t.source.TransactionMax.Load() }),
	}
	ofSinks = []series{
		counter("sink_task_metrics_sink_record_read_total", "Records read from topics.", func(t *taskMetrics) int64 { return t.sink.Read.Load() }),
		counter("sink_task_metrics_sink_record_send_total", "Records put into the sink.", func(t *taskMetrics) int64 { return t.sink.Sent.Load() }),
		gauge("sink_task_metrics_sink_record_active_count", "Offsets between what was put and what is committed.", func(t *taskMetrics) int64 { return t.sink.Active.Load() }),
		gauge("sink_task_metrics_partition_count", "Partitions assigned to the task.", func(t *taskMetrics) int64 { return t.sink.Partitions.Load() }),
		counter("sink_task_metrics_offset_commit_completion_total", "Commits of offsets that have succeeded.", func(t *taskMetrics) int64 { return t.sink.Commits.Load() }),
		counter("sink_task_metrics_offset_commit_skip_total", "Commits of offsets that have failed.", func(t *taskMetrics) int64 { return t.sink.CommitFailures.Load() }),
		counter("sink_task_metrics_put_batch_total", "Batches put into the sink.", func(t *taskMetrics) int64 { return t.sink.Batches.Load() }),
		counter("sink_task_metrics_put_batch_time_ns_total", "Nanoseconds spent putting batches.", func(t *taskMetrics) int64 { return t.sink.PutNanos.Load() }),
		millis("sink_task_metrics_put_batch_max_time_ms", "Longest time that putting a batch took in milliseconds.", func(t *taskMetrics) int64 { return t.sink.MaxPutNanos.Load() }),
	}
)

var (
	connectorStatus = prometheus.NewDesc("kafka_connect_connector_metrics_status", "1 for the state that a connector of this worker is in.", []string{"connector", "status"}, nil)
	taskStatus      = prometheus.NewDesc("kafka_connect_connector_task_metrics_status", "1 for the state that a task of this worker is in.", []string{"connector", "task", "status"}, nil)
	connectorCount  = prometheus.NewDesc("kafka_connect_connect_worker_metrics_connector_count", "Connectors that this worker runs.", nil, nil)
	taskCount       = prometheus.NewDesc("kafka_connect_connect_worker_metrics_task_count", "Tasks that this worker runs.", nil, nil)
	rebalances      = prometheus.NewDesc("kafka_connect_connect_worker_rebalance_metrics_completed_rebalances_total", "Rebalances that this worker has completed.", nil, nil)
	epoch           = prometheus.NewDesc("kafka_connect_connect_worker_rebalance_metrics_epoch", "Generation of the group at the last rebalance.", nil, nil)
	leader          = prometheus.NewDesc("kafka_connect_connect_worker_rebalance_metrics_leader", "1 while this worker leads the group.", nil, nil)
)

// Describe names all metrics.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{connectorStatus, taskStatus, connectorCount, taskCount, rebalances, epoch, leader} {
		to <- desc
	}
	for _, s := range slices.Concat(ofErrors, ofSources, ofSinks) {
		to <- s.desc
	}
}

// Collect tells what the worker runs, and what has become of it.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	connectors, tasks := 0, 0
	for item, state := range m.states {
		word := strings.ToLower(string(state))
		if item.IsTask() {
			tasks++
			to <- prometheus.MustNewConstMetric(taskStatus, prometheus.GaugeValue, 1, item.Connector, number(item), word)
			continue
		}
		connectors++
		to <- prometheus.MustNewConstMetric(connectorStatus, prometheus.GaugeValue, 1, item.Connector, word)
	}
	for item, t := range m.tasks {
		collect(to, ofErrors, item, t)
		if t.source.Polls.Load() > 0 {
			collect(to, ofSources, item, t)
		}
		if t.sink.Read.Load() > 0 || t.sink.Partitions.Load() > 0 {
			collect(to, ofSinks, item, t)
		}
	}
	for desc, value := range map[*prometheus.Desc]float64{connectorCount: float64(connectors), taskCount: float64(tasks), epoch: m.epoch, leader: m.leads} {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value)
	}
	to <- prometheus.MustNewConstMetric(rebalances, prometheus.CounterValue, m.rebalances)
}

func collect(to chan<- prometheus.Metric, all []series, item work.Item, t *taskMetrics) {
	for _, s := range all {
		to <- prometheus.MustNewConstMetric(s.desc, s.kind, s.value(t), item.Connector, number(item))
	}
}

func number(item work.Item) string { return strconv.Itoa(int(item.Task)) }
