package configkeys

import (
	"sync"

	"github.com/cauce-stream/cauce/libs/config"
)

// Values is what a process was started with, by the keys of Broker.
type Values = config.Values

// Broker returns the keys that a node is configured with: Kafka's broker keys
// and Cauce's own.
func Broker() *config.Schema { return brokerSchema() }

// Topic returns the keys that a topic can override.
func Topic() *config.Schema { return topicSchema() }

// Group returns the keys that a consumer, share or streams group can override (KIP-848, KIP-932, KIP-1071).
func Group() *config.Schema { return groupSchema() }

// ClientMetrics returns the keys of a client-metrics subscription (KIP-714).
func ClientMetrics() *config.Schema { return clientMetricsSchema() }

// section is a part of the broker keys with its heading in the documentation.
type section struct {
	title string
	keys  []config.Key
}

var brokerSections = []section{
	{"Node", nodeKeys},
	{"Cauce's own keys", cauceKeys},
	{"Connect", connectKeys},
	{"Connections and requests", networkKeys},
	{"Defaults of topics", topicDefaultKeys},
	{"Log directories", logKeys},
	{"Fetching and replication", replicationKeys},
	{"Controllers", controllerKeys},
	{"Groups and offsets", groupKeys},
	{"Consumer, share and streams groups", groupTypeKeys},
	{"Transactions", transactionKeys},
	{"Quotas and authorization", quotaKeys},
	{"TLS", sslKeys},
	{"SASL", saslKeys},
	{"SASL/OAUTHBEARER", oauthKeys},
	{"Tiered storage", tieredKeys},
}

var (
	brokerSchema = sync.OnceValue(func() *config.Schema {
		var tables [][]config.Key
		for _, s := range brokerSections {
			for i := range s.keys {
				s.keys[i].Update = updateModes[s.keys[i].Name]
			}
			tables = append(tables, s.keys)
		}
		return config.NewSchema(tables...).Retire(retired).Open(ConnectPrefix)
	})
	topicSchema         = sync.OnceValue(func() *config.Schema { return config.NewSchema(topicKeys) })
	groupSchema         = sync.OnceValue(func() *config.Schema { return config.NewSchema(groupOverrideKeys) })
	clientMetricsSchema = sync.OnceValue(func() *config.Schema { return config.NewSchema(clientMetricsKeys) })
)

// retired are keys of older Kafka versions that have no meaning any more, with what to do instead.
var retired = map[string]string{
	"zookeeper.connect":                       "Cauce keeps its metadata in its own controllers; remove the key",
	"zookeeper.connection.timeout.ms":         "Cauce keeps its metadata in its own controllers; remove the key",
	"zookeeper.session.timeout.ms":            "Cauce keeps its metadata in its own controllers; remove the key",
	"inter.broker.protocol.version":           "removed in Kafka 4.0; features are upgraded with kafka-features",
	"log.message.format.version":              "removed in Kafka 4.0; record batches are always of version 2",
	"log.message.downconversion.enable":       "removed in Kafka 4.0; record batches are always of version 2",
	"log.message.timestamp.difference.max.ms": "removed in Kafka 4.0; use log.message.timestamp.before.max.ms and .after.max.ms",
	"leader.imbalance.per.broker.percentage":  "removed in Kafka 4.0; any imbalance is mended, see auto.leader.rebalance.enable",
	"controlled.shutdown.max.retries":         "removed in Kafka 4.0; see controlled.shutdown.enable",
	"controlled.shutdown.retry.backoff.ms":    "removed in Kafka 4.0; see controlled.shutdown.enable",
	"offsets.commit.required.acks":            "removed in Kafka 4.0; offset commits always wait for all in-sync replicas",
	"advertised.host.name":                    "removed in Kafka 3.0; use advertised.listeners",
	"advertised.port":                         "removed in Kafka 3.0; use advertised.listeners",
	"host.name":                               "removed in Kafka 3.0; use listeners",
	"port":                                    "removed in Kafka 3.0; use listeners",
	"password.encoder.secret":                 "removed in Kafka 4.0; remove the key",
}
