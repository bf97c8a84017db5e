package configkeys

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

func TestValidate(t *testing.T) {
	l := Layers{Static: static(t, pairs("group.consumer.max.session.timeout.ms", "50000"))}
	perBroker := func(values map[string]string) error { return ValidateBroker(values, true) }
	clusterWide := func(values map[string]string) error { return ValidateBroker(values, false) }
	tests := []struct {
		name     string
		validate func(map[string]string) error
		values   map[string]string
		code     *kerr.Error
		message  string
	}{
		{"good topic", ValidateTopic, pairs("retention.ms", "-1", "cleanup.policy", "compact,delete", "leader.replication.throttled.replicas", "0:1,0:2"), nil, ""},
		{"no policy at all", ValidateTopic, pairs("cleanup.policy", ""), nil, ""},
		{"unknown key", ValidateTopic, pairs("retention.msec", "1"), kerr.InvalidConfig, "retention.msec: unknown key, did you mean retention.ms?"},
		{"below the limit", ValidateTopic, pairs("retention.ms", "-3"), kerr.InvalidConfig, "retention.ms=-3: below the least value -1"},
		{"no number", ValidateTopic, pairs("segment.ms", "abc"), kerr.InvalidConfig, "segment.ms=abc: not a whole number from -9223372036854775808 to 9223372036854775807"},
		{"all at once", ValidateTopic, pairs("a", "1", "cleanup.policy", "delte"), kerr.InvalidConfig, "a: unknown key; cleanup.policy=delte: not one of compact, delete (did you mean delete?)"},
		{"lags cross", ValidateTopic, pairs("max.compaction.lag.ms", "5", "min.compaction.lag.ms", "10"), kerr.InvalidConfig, "min.compaction.lag.ms (10) is above max.compaction.lag.ms (5)"},
		{"tiered", ValidateTopic, pairs("remote.storage.enable", "true"), kerr.InvalidConfig, "remote.storage.enable: this cluster has no tiered storage"},
		{"throttled", ValidateTopic, pairs("follower.replication.throttled.replicas", "0:1,x"), kerr.InvalidConfig, `follower.replication.throttled.replicas=0:1,x: "x" is not of the form partition:node`},
		{"dynamic broker", clusterWide, pairs("log.retention.ms", "1", "leader.replication.throttled.rate", "100"), nil, ""},
		{"read-only", clusterWide, pairs("num.partitions", "1", "broker.rack", "a", "log.retention.ms", "1"), kerr.InvalidRequest, "cannot be changed while a node runs: broker.rack, num.partitions"},
		{"read at the start", clusterWide, pairs("num.recovery.threads.per.data.dir", "4", "listeners", "A://:1"), kerr.InvalidRequest, "cannot be changed while a node runs: listeners, num.recovery.threads.per.data.dir"},
		{"one node only", clusterWide, pairs("ssl.keystore.location", "/k"), kerr.InvalidRequest, "can only be set for a single node: ssl.keystore.location"},
		{"one node", perBroker, pairs("ssl.keystore.location", "/k", "listener.name.internal.ssl.keystore.location", "/i"), nil, ""},
		{"secret", perBroker, pairs("no.such.key", "1", "ssl.key.password", "s3cret"), kerr.InvalidConfig, "no.such.key: unknown key"},
		{"group", l.ValidateGroup, pairs("consumer.session.timeout.ms", "46000", "share.auto.offset.reset", "by_duration:P1DT2H"), nil, ""},
		{"below the cluster", l.ValidateGroup, pairs("consumer.session.timeout.ms", "6000"), kerr.InvalidConfig, "consumer.session.timeout.ms: 6000 is below the cluster's least value 45000"},
		{"above the cluster", l.ValidateGroup, pairs("consumer.session.timeout.ms", "50001"), kerr.InvalidConfig, "consumer.session.timeout.ms: 50001 is above the cluster's greatest value 50000"},
		{"standbys", l.ValidateGroup, pairs("streams.num.standby.replicas", "3"), kerr.InvalidConfig, "streams.num.standby.replicas: 3 is above the cluster's greatest value 2"},
		{"bad duration", l.ValidateGroup, pairs("share.auto.offset.reset", "by_duration:1h"), kerr.InvalidConfig, `share.auto.offset.reset=by_duration:1h: "1h" is not an ISO 8601 duration such as PT1H30M`},
		{"subscription", ValidateClientMetrics, pairs("interval.ms", "x"), kerr.InvalidConfig, "interval.ms=x: not a whole number from -2147483648 to 2147483647"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := test.validate(test.values)
			if test.code == nil {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if !errors.Is(err, test.code) || err.Error() != test.message {
				t.Errorf("\n got %v\nwant %v", err, test.message)
			}
		})
	}
}

func TestSessionMustOutlastHeartbeat(t *testing.T) {
	l := Layers{Static: static(t, pairs("group.share.max.heartbeat.interval.ms", "60000"))}
	err := l.ValidateGroup(pairs("share.heartbeat.interval.ms", "50000"))
	if !errors.Is(err, kerr.InvalidConfig) {
		t.Errorf("error is %v", err)
	}
}

func TestRetiredKeysSayWhatToDo(t *testing.T) {
	f := Broker().Check("zookeeper.connect", "x")
	if f == nil || f.Reason != retired["zookeeper.connect"] {
		t.Errorf("fault is %v", f)
	}
	for name := range retired {
		if _, ok := Broker().Lookup(name); ok {
			t.Errorf("%s is retired and a key", name)
		}
	}
}
