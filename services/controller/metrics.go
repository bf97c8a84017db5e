package controller

import (
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cauce-stream/cauce/libs/metadata"
)

// metrics are named as Kafka's JMX exporter configurations name those of its controller (kafka.controller:type=KafkaController,
// type=ControllerEventManager, type=ControllerStats) and of its raft client (kafka.server:type=raft-metrics).
type metrics struct {
	s *Service

	queueTime, processingTime                  prometheus.Histogram
	newActive, timedOut, gone, dropped, faults prometheus.Counter
	unclean                                    prometheus.Counter
}

var eventBucketsMs = []float64{0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 100, 500, 2500}

func newMetrics(s *Service, r prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	histogram := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: eventBucketsMs})
	}
	m := &metrics{
		s:              s,
		queueTime:      histogram("kafka_controller_controllereventmanager_eventqueuetimems", "Milliseconds that requests to the active controller waited."),
		processingTime: histogram("kafka_controller_controllereventmanager_eventqueueprocessingtimems", "Milliseconds that the decisions took."),
		newActive:      counter("kafka_controller_kafkacontroller_newactivecontrollerscount", "Times that this controller became the active one."),
		timedOut:       counter("kafka_controller_kafkacontroller_timedoutbrokerheartbeatcount", "Nodes fenced for their silence."),
		gone:           counter("cauce_controller_gone_nodes_total", "Nodes fenced because their process had ended, as another node confirmed."),
		dropped:        counter("cauce_controller_dropped_messages_total", "Pushes and answers given up because the bus was stuck."),
		unclean:        counter("kafka_controller_controllerstats_uncleanleaderelections_total", "Leaders elected that may lack acknowledged records."),
		faults:         counter("kafka_controller_kafkacontroller_metadataerrorcount", "Decisions that failed by a fault of the controller."),
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.queueTime, m.processingTime, m.newActive, m.timedOut, m.gone, m.dropped, m.faults, m.unclean, m} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("controller: %w", err)
		}
	}
	return m, nil
}

func gauge(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, nil, nil) }

var (
	activeControllers = gauge("kafka_controller_kafkacontroller_activecontrollercount", "1 while this controller is the active one.")
	topics            = gauge("kafka_controller_kafkacontroller_globaltopiccount", "Topics of the cluster.")
	partitions        = gauge("kafka_controller_kafkacontroller_globalpartitioncount", "Partitions of the cluster.")
	offline           = gauge("kafka_controller_kafkacontroller_offlinepartitionscount", "Partitions without a leader.")
	imbalanced        = gauge("kafka_controller_kafkacontroller_preferredreplicaimbalancecount", "Partitions that their preferred replica does not lead.")
	activeNodes       = gauge("kafka_controller_kafkacontroller_activebrokercount", "Nodes that are registered and not fenced.")
	fencedNodes       = gauge("kafka_controller_kafkacontroller_fencedbrokercount", "Nodes that are fenced.")
	applied           = gauge("kafka_controller_kafkacontroller_lastappliedrecordoffset", "Offset of the metadata that this controller has applied.")
	currentLeader     = gauge("kafka_server_raft_metrics_current_leader", "Node id of the active controller, -1 when unknown.")
	currentEpoch      = gauge("kafka_server_raft_metrics_current_epoch", "Term of the quorum.")
)

// Describe is half of prometheus.Collector.
func (m *metrics) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{activeControllers, topics, partitions, offline, imbalanced, activeNodes, fencedNodes, applied, currentLeader, currentEpoch} {
		descs <- d
	}
}

// Collect is the other half: it looks at the image of the moment.
func (m *metrics) Collect(values chan<- prometheus.Metric) {
	set := func(d *prometheus.Desc, value int64) {
		values <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value))
	}
	im, lead := m.s.Image(), m.s.machine.leadership()
	var active int64
	if lead.Claim != 0 {
		active = 1
	}
	set(activeControllers, active)
	set(topics, int64(im.TopicCount()))
	set(partitions, int64(im.PartitionCount()))
	noLeader, notPreferred := partitionHealth(im)
	set(offline, noLeader)
	set(imbalanced, notPreferred)
	var unfenced, fenced int64
	for n := range im.Nodes() {
		if n.Fenced {
			fenced++
		} else {
			unfenced++
		}
	}
	set(activeNodes, unfenced)
	set(fencedNodes, fenced)
	set(applied, im.Offset())
	set(currentLeader, int64(lead.Leader))
	set(currentEpoch, int64(lead.Term))
}

func partitionHealth(im *metadata.Image) (noLeader, notPreferred int64) {
	for t := range im.Topics() {
		for _, p := range t.Partitions {
			if !p.HasLeader() {
				noLeader++
			}
			if !slices.Equal(p.Replicas[:min(1, len(p.Replicas))], []int32{p.Leader}) {
				notPreferred++
			}
		}
	}
	return noLeader, notPreferred
}
