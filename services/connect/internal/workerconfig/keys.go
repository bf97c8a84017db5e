package workerconfig

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/cauce-stream/cauce/libs/config"
)

var (
	millis         = config.AtLeast(0)
	timeout        = config.AtLeast(1)
	factor         = config.Or(config.AtLeast(1), "-1")
	listenersValid = config.Validator{Text: "http://host:port or https://host:port, …", Check: func(text string) error {
		for _, l := range config.Elements(text) {
			if err := checkListener(l); err != nil {
				return err
			}
		}
		return nil
	}}
)

func checkListener(text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return fmt.Errorf("%q is no URL", text)
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("%q begins neither with http:// nor with https://", text)
	}
	if u.Port() == "" || strings.Trim(u.Path, "/") != "" {
		return fmt.Errorf("%q is not of the form %s://host:port", text, u.Scheme)
	}
	return nil
}

func required(name string, t config.Type, doc string) config.Key {
	return config.Key{Name: name, Type: t, Null: true, Doc: doc, Valid: config.NonEmpty()}
}

var groupKeys = []config.Key{
	{Name: "bootstrap.servers", Type: config.List, Default: "localhost:9092", Doc: "Brokers to find the cluster by, host:port each."},
	required("group.id", config.String, "Group of the workers that share their connectors. No consumer group of the cluster may have the same id."),
	{Name: "client.id", Type: config.String, Default: "", Doc: "Name of the worker in the brokers' logs and metrics."},
	{Name: "session.timeout.ms", Type: config.Int, Default: "10000", Valid: timeout, Doc: "After how many milliseconds without a heartbeat the group takes a worker for dead."},
	{Name: "heartbeat.interval.ms", Type: config.Int, Default: "3000", Valid: timeout, Doc: "Milliseconds between heartbeats. Has to be shorter than session.timeout.ms."},
	{Name: "rebalance.timeout.ms", Type: config.Int, Default: "60000", Valid: timeout, Doc: "For how many milliseconds a rebalance waits for a worker that has to flush and to stop tasks first."},
	{Name: "worker.sync.timeout.ms", Type: config.Int, Default: "3000", Valid: timeout, Doc: "For how many milliseconds a worker that is behind the others reads the config topic before it leaves the group."},
	{Name: "worker.unsync.backoff.ms", Type: config.Int, Default: "300000", Valid: millis, Doc: "For how many milliseconds such a worker stays out of the group."},
	{Name: "connect.protocol", Type: config.String, Default: "sessioned", Valid: config.OneOf("eager", "compatible", "sessioned"), Doc: "Newest protocol to offer in the group: eager gives up all work at each rebalance, compatible moves differences, sessioned signs requests between workers as well."},
	{Name: "scheduled.rebalance.max.delay.ms", Type: config.Int, Default: "300000", Valid: millis, Doc: "For how many milliseconds the work of a worker that left is held back for it to come again."},
	{Name: "inter.worker.key.generation.algorithm", Type: config.String, Default: "HmacSHA256", Valid: config.OneOf(algorithms...), Doc: "Algorithm of the keys that workers sign requests to each other with."},
	{Name: "inter.worker.key.size", Type: config.Int, Null: true, Valid: config.Between(8, 4096), Doc: "Bits of such a key; the algorithm's own size when unset."},
	{Name: "inter.worker.key.ttl.ms", Type: config.Int, Default: "3600000", Valid: millis, Doc: "After how many milliseconds the leader makes a new key; 0 keeps the first."},
	{Name: "inter.worker.signature.algorithm", Type: config.String, Default: "HmacSHA256", Valid: config.OneOf(algorithms...), Doc: "Algorithm of the signatures of such requests."},
	{Name: "inter.worker.verification.algorithms", Type: config.List, Default: "HmacSHA256", Valid: config.ListOf(false, algorithms...), Doc: "Algorithms that are accepted of others. The worker's own has to be among them."},
	{Name: "exactly.once.source.support", Type: config.String, Default: "disabled", Valid: config.OneOf("disabled", "preparing", "enabled"), Doc: "Whether sources write records and offsets in one transaction. All workers have to be preparing before the first is enabled."},
}

// algorithms are the Java names of what workers can sign with.
var algorithms = []string{"HmacSHA1", "HmacSHA256", "HmacSHA384", "HmacSHA512"}

var topicKeys = []config.Key{
	required("config.storage.topic", config.String, "Topic of the configurations of connectors and tasks. It has one partition and is compacted."),
	{Name: "config.storage.replication.factor", Type: config.Short, Default: "3", Valid: factor, Doc: "Replicas of the config topic when it is created; -1 for the brokers' default."},
	required("offset.storage.topic", config.String, "Topic of the offsets of sources. It is compacted."),
	{Name: "offset.storage.partitions", Type: config.Int, Default: "25", Valid: factor, Doc: "Partitions of the offset topic when it is created; -1 for the brokers' default."},
	{Name: "offset.storage.replication.factor", Type: config.Short, Default: "3", Valid: factor, Doc: "Replicas of the offset topic when it is created; -1 for the brokers' default."},
	required("status.storage.topic", config.String, "Topic of the states of connectors and tasks. It is compacted."),
	{Name: "status.storage.partitions", Type: config.Int, Default: "5", Valid: factor, Doc: "Partitions of the status topic when it is created; -1 for the brokers' default."},
	{Name: "status.storage.replication.factor", Type: config.Short, Default: "3", Valid: factor, Doc: "Replicas of the status topic when it is created; -1 for the brokers' default."},
}

var taskKeys = []config.Key{
	required("key.converter", config.Class, "Converter of keys, by the name of its Java class or its short name. What begins with key.converter. configures it."),
	required("value.converter", config.Class, "Converter of values. What begins with value.converter. configures it."),
	{Name: "header.converter", Type: config.Class, Default: "org.apache.kafka.connect.storage.SimpleHeaderConverter", Doc: "Converter of headers. What begins with header.converter. configures it."},
	{Name: "offset.flush.interval.ms", Type: config.Long, Default: "60000", Valid: millis, Doc: "Milliseconds between the times at which tasks store their offsets."},
	{Name: "offset.flush.timeout.ms", Type: config.Long, Default: "5000", Valid: timeout, Doc: "For how many milliseconds storing offsets may take before it is tried again later."},
	{Name: "task.shutdown.graceful.timeout.ms", Type: config.Long, Default: "5000", Valid: millis, Doc: "For how many milliseconds tasks that stop may go on, all of them together."},
	{Name: "task.restart.backoff.ms", Type: config.Long, Default: "0", Valid: millis, Doc: "After how many milliseconds a connector or task that has failed is started again, twice as many after each failure that comes soon; 0 leaves that to people. Cauce's own."},
	{Name: "task.restart.backoff.max.ms", Type: config.Long, Default: "300000", Valid: timeout, Doc: "The most that task.restart.backoff.ms grows to, in milliseconds, and after how long without a failure it begins anew. Cauce's own."},
	{Name: "topic.creation.enable", Type: config.Boolean, Default: "true", Doc: "Whether topics of sources are created as their topic.creation. properties say."},
	{Name: "topic.tracking.enable", Type: config.Boolean, Default: "true", Doc: "Whether the topics that connectors use are kept in the status topic."},
	{Name: "topic.tracking.allow.reset", Type: config.Boolean, Default: "true", Doc: "Whether the list of a connector's topics can be reset."},
	{Name: "connector.client.config.override.policy", Type: config.Class, Default: "All", Doc: "Which properties of clients connectors may set for themselves: All, None, Principal or Allowlist, or the Java class of one of them."},
	{Name: "connector.client.config.override.allowlist", Type: config.List, Default: "", Doc: "The properties that Allowlist lets connectors set."},
	{Name: "config.providers", Type: config.List, Default: "", Doc: "Names of the providers that ${provider:path:key} in configurations refers to. config.providers.NAME.class and .param. configure each."},
	{Name: "plugin.path", Type: config.List, Default: "", Doc: "Folders in which plugins are looked for besides those that ship."},
	{Name: "offset.storage.file.filename", Type: config.String, Null: true, Doc: "File of the offsets of a standalone worker."},
}

var restKeys = []config.Key{
	{Name: "listeners", Type: config.List, Default: "http://:8083", Valid: listenersValid, Doc: "Addresses of the REST interface."},
	{Name: "admin.listeners", Type: config.List, Null: true, Valid: listenersValid, Doc: "Addresses of /admin; those of listeners when unset, none when empty."},
	{Name: "rest.advertised.host.name", Type: config.String, Null: true, Doc: "Host by which other workers reach this one."},
	{Name: "rest.advertised.port", Type: config.Int, Null: true, Valid: config.Between(1, 65535), Doc: "Port by which other workers reach this one."},
	{Name: "rest.advertised.listener", Type: config.String, Null: true, Valid: config.OneOfFold("http", "https"), Doc: "Which of the listeners other workers use."},
	{Name: "access.control.allow.origin", Type: config.String, Default: "", Doc: "Value of Access-Control-Allow-Origin in answers; none when empty."},
	{Name: "access.control.allow.methods", Type: config.String, Default: "", Doc: "Methods that requests of other origins may have."},
}

// unusedKeys are known to Kafka's worker and mean nothing here: they are accepted so that its files work.
var unusedKeys = []config.Key{
	{Name: "plugin.discovery", Type: config.String, Default: "hybrid_warn", Valid: config.OneOfFold("only_scan", "hybrid_warn", "hybrid_fail", "service_load"), Doc: "Has no effect: plugins are files in plugin.path."},
	{Name: "rest.extension.classes", Type: config.List, Default: "", Doc: "Has to be empty: Java classes cannot be loaded."},
	{Name: "response.http.headers.config", Type: config.String, Default: "", Doc: "Has no effect."},
	{Name: "client.dns.lookup", Type: config.String, Default: "use_all_dns_ips", Doc: "Has no effect."},
	{Name: "metadata.max.age.ms", Type: config.Long, Default: "300000", Valid: millis, Doc: "Has no effect."},
	{Name: "metadata.recovery.strategy", Type: config.String, Default: "rebootstrap", Valid: config.OneOfFold("none", "rebootstrap"), Doc: "Has no effect."},
	{Name: "metadata.recovery.rebootstrap.trigger.ms", Type: config.Long, Default: "300000", Valid: millis, Doc: "Has no effect."},
	{Name: "request.timeout.ms", Type: config.Int, Default: "40000", Valid: millis, Doc: "Has no effect."},
	{Name: "retry.backoff.ms", Type: config.Long, Default: "100", Valid: millis, Doc: "Has no effect."},
	{Name: "retry.backoff.max.ms", Type: config.Long, Default: "1000", Valid: millis, Doc: "Has no effect."},
	{Name: "reconnect.backoff.ms", Type: config.Long, Default: "50", Valid: millis, Doc: "Has no effect."},
	{Name: "reconnect.backoff.max.ms", Type: config.Long, Default: "1000", Valid: millis, Doc: "Has no effect."},
	{Name: "connections.max.idle.ms", Type: config.Long, Default: "540000", Doc: "Has no effect."},
	{Name: "send.buffer.bytes", Type: config.Int, Default: "131072", Valid: config.AtLeast(-1), Doc: "Has no effect."},
	{Name: "receive.buffer.bytes", Type: config.Int, Default: "32768", Valid: config.AtLeast(-1), Doc: "Has no effect."},
	{Name: "socket.connection.setup.timeout.ms", Type: config.Long, Default: "10000", Valid: millis, Doc: "Has no effect."},
	{Name: "socket.connection.setup.timeout.max.ms", Type: config.Long, Default: "30000", Valid: millis, Doc: "Has no effect."},
	{Name: "metric.reporters", Type: config.List, Default: "", Doc: "Has no effect: metrics are Prometheus'."},
	{Name: "auto.include.jmx.reporter", Type: config.Boolean, Default: "true", Doc: "Has no effect: metrics are Prometheus'."},
	{Name: "enable.metrics.push", Type: config.Boolean, Default: "true", Doc: "Has no effect."},
	{Name: "default.api.timeout.ms", Type: config.Int, Default: "60000", Valid: millis, Doc: "Has no effect."},
	{Name: "retries", Type: config.Int, Default: "2147483647", Valid: millis, Doc: "Has no effect."},
	{Name: "metrics.num.samples", Type: config.Int, Default: "2", Valid: timeout, Doc: "Has no effect."},
	{Name: "metrics.sample.window.ms", Type: config.Long, Default: "30000", Valid: millis, Doc: "Has no effect."},
	{Name: "metrics.recording.level", Type: config.String, Default: "INFO", Valid: config.OneOfFold("INFO", "DEBUG", "TRACE"), Doc: "Has no effect."},
}
