package lag

import (
	"strconv"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cauce-stream/cauce/services/groupcoord/internal/judgement"
)

var (
	ofGroup     = []string{"consumergroup"}
	ofPartition = []string{"consumergroup", "topic", "partition"}
)

// The names with kafka_ are those of the usual exporters of lag.
var (
	offsetDesc  = prometheus.NewDesc("kafka_consumergroup_current_offset", "Offset that a group committed last.", ofPartition, nil)
	lagDesc     = prometheus.NewDesc("kafka_consumergroup_lag", "Records between a group's committed offset and the high watermark.", ofPartition, nil)
	secondsDesc = prometheus.NewDesc("kafka_consumergroup_lag_seconds",
		"How long ago the first record that a group has still to consume was written, by where the log ended when; 0 without lag.", ofPartition, nil)
	trendDesc = prometheus.NewDesc("cauce_consumergroup_lag_trend",
		"Records per second by which a group's lag has grown over the last looks; negative where it shrinks.", ofPartition, nil)
	partitionStatusDesc = prometheus.NewDesc("cauce_consumergroup_partition_status",
		"1 with how a group comes along in a partition as label: OK, WARNING, HOT_PARTITION, STALLED or HUNG_TXN.", append(ofPartition[:3:3], "status"), nil)
	statusDesc = prometheus.NewDesc("cauce_consumergroup_status",
		"1 with how a group comes along as label: the worst of its partitions, or REBALANCE_LOOP.", append(ofGroup[:1:1], "status"), nil)
	membersDesc = prometheus.NewDesc("kafka_consumergroup_members", "Members of a group.", ofGroup, nil)
	leftDesc    = prometheus.NewDesc("cauce_consumergroup_unwatched", "Groups and offsets of groups without lag metrics, for more than group.lag.max.partitions.", nil, nil)
)

// Describe names the metrics.
func (w *Watch) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{offsetDesc, lagDesc, secondsDesc, trendDesc, partitionStatusDesc, statusDesc, membersDesc, leftDesc} {
		ch <- d
	}
}

// labelBytes bounds the length of a group's id as a label.
const labelBytes = 255

// Collect sends what the last look saw. Groups whose id cannot be a label, as it is too long or no UTF-8, are left out.
func (w *Watch) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	seen := w.latest.Load()
	gauge(leftDesc, float64(seen.left))
	for _, r := range seen.reports {
		if len(r.Group) > labelBytes || !utf8.ValidString(r.Group) {
			continue
		}
		gauge(membersDesc, float64(r.Members), r.Group)
		if r.Judged {
			gauge(statusDesc, 1, r.Group, r.Status.String())
		}
		for _, p := range r.Partitions {
			partition := strconv.Itoa(int(p.Partition))
			gauge(offsetDesc, float64(p.Committed), r.Group, p.Topic, partition)
			if p.Records == judgement.Unknown {
				continue
			}
			gauge(lagDesc, float64(p.Records), r.Group, p.Topic, partition)
			gauge(secondsDesc, p.Seconds, r.Group, p.Topic, partition)
			gauge(trendDesc, p.Trend, r.Group, p.Topic, partition)
			if p.Judged {
				gauge(partitionStatusDesc, 1, r.Group, p.Topic, partition, p.Status.String())
			}
		}
	}
}
