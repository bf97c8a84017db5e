package node

import (
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// metrics have the names that JMX exporter configurations give Kafka's (kafka.server:type=broker-metadata-metrics, type=KafkaServer).
type metrics struct {
	missedBeats prometheus.Counter
}

// States of a node, as Kafka numbers them in the metric BrokerState.
const (
	stateStarting = 1
	stateRunning  = 3
	stateLeaving  = 6
)

func newMetrics(n *Node, r prometheus.Registerer) *metrics {
	m := &metrics{missedBeats: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "cauce_node_missed_heartbeats_total", Help: "Heartbeats that the active controller did not answer.",
	})}
	if r == nil {
		return m
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	for _, c := range []prometheus.Collector{
		m.missedBeats,
		gauge("kafka_server_broker_metadata_metrics_last_applied_record_offset", "Offset of the node's metadata image.",
			func() float64 { return float64(n.Image().Offset()) }),
		gauge("kafka_server_kafkaserver_brokerstate", "1 starting, 3 running, 6 in controlled shutdown.",
			func() float64 { return float64(n.state()) }),
	} {
		if err := r.Register(c); err != nil {
			n.log.Error("metric not registered", zap.Error(err))
		}
	}
	return m
}

func (n *Node) state() int {
	if n.Draining() {
		return stateLeaving
	}
	select {
	case <-n.ready:
		return stateRunning
	default:
		return stateStarting
	}
}
