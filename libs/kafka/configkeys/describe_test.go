package configkeys

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// text renders an entry as Apache Kafka's kafka-configs does.
func text(e Entry) string {
	value := func(v *string) string {
		if v == nil {
			return "null"
		}
		return *v
	}
	var synonyms []string
	for _, s := range e.Synonyms {
		synonyms = append(synonyms, fmt.Sprintf("%s:%s=%s", s.Source, s.Name, value(s.Value)))
	}
	return fmt.Sprintf("%s=%s %s ro=%t {%s}", e.Name, value(e.Value), e.Source, e.ReadOnly, strings.Join(synonyms, ", "))
}

func find(t *testing.T, entries []Entry, name string) Entry {
	t.Helper()
	i := slices.IndexFunc(entries, func(e Entry) bool { return e.Name == name })
	if i < 0 {
		t.Fatalf("%s is not described", name)
	}
	return entries[i]
}

// TestDescribe pins what Apache Kafka 4.3.1 answers in the same situations.
func TestDescribe(t *testing.T) {
	l := Layers{
		Static: static(t, pairs("log.retention.minutes", "30", "log.roll.hours", "3", "ssl.key.password", "abc", "num.partitions", "1")),
	}
	dynamic := l
	dynamic.ClusterDefault = pairs("log.retention.ms", "1000000", "leader.replication.throttled.rate", "5")
	tests := []struct {
		entries []Entry
		want    string
	}{
		{l.DescribeTopic(nil), "retention.ms=1800000 DEFAULT_CONFIG ro=false {}"},
		{l.DescribeTopic(nil), "segment.ms=10800000 DEFAULT_CONFIG ro=false {}"},
		{l.DescribeTopic(nil), "flush.ms=9223372036854775807 DEFAULT_CONFIG ro=false {}"},
		{l.DescribeTopic(nil), "max.message.bytes=1048588 DEFAULT_CONFIG ro=false {DEFAULT_CONFIG:message.max.bytes=1048588}"},
		{l.DescribeTopic(pairs("max.message.bytes", "1048588")), "max.message.bytes=1048588 DYNAMIC_TOPIC_CONFIG ro=false {DYNAMIC_TOPIC_CONFIG:max.message.bytes=1048588, DEFAULT_CONFIG:message.max.bytes=1048588}"},
		{dynamic.DescribeTopic(pairs("retention.ms", "2000000")), "retention.ms=2000000 DYNAMIC_TOPIC_CONFIG ro=false {DYNAMIC_TOPIC_CONFIG:retention.ms=2000000, DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=1000000, STATIC_BROKER_CONFIG:log.retention.minutes=30, DEFAULT_CONFIG:log.retention.hours=168}"},
		{l.DescribeTopic(nil), "remote.storage.enable=false DEFAULT_CONFIG ro=false {}"},
		{l.DescribeBroker(), "log.retention.ms=null DEFAULT_CONFIG ro=false {}"},
		{l.DescribeBroker(), "log.retention.minutes=30 STATIC_BROKER_CONFIG ro=true {STATIC_BROKER_CONFIG:log.retention.minutes=30, DEFAULT_CONFIG:log.retention.hours=168}"},
		{l.DescribeBroker(), "log.retention.hours=168 DEFAULT_CONFIG ro=true {DEFAULT_CONFIG:log.retention.hours=168}"},
		{l.DescribeBroker(), "num.partitions=1 STATIC_BROKER_CONFIG ro=true {STATIC_BROKER_CONFIG:num.partitions=1, DEFAULT_CONFIG:num.partitions=1}"},
		{l.DescribeBroker(), "ssl.key.password=null STATIC_BROKER_CONFIG ro=false {STATIC_BROKER_CONFIG:ssl.key.password=null}"},
		{dynamic.DescribeBroker(), "leader.replication.throttled.rate=5 DYNAMIC_DEFAULT_BROKER_CONFIG ro=false {DYNAMIC_DEFAULT_BROKER_CONFIG:leader.replication.throttled.rate=5, DEFAULT_CONFIG:leader.replication.throttled.rate=9223372036854775807}"},
		{DescribeBrokerDefault(dynamic.ClusterDefault), "log.retention.ms=1000000 DYNAMIC_DEFAULT_BROKER_CONFIG ro=false {DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=1000000}"},
		{l.DescribeGroup(nil), "share.isolation.level=read_uncommitted DEFAULT_CONFIG ro=false {DEFAULT_CONFIG:share.isolation.level=read_uncommitted}"},
		{l.DescribeGroup(pairs("consumer.session.timeout.ms", "50000")), "consumer.session.timeout.ms=50000 GROUP_CONFIG ro=false {GROUP_CONFIG:consumer.session.timeout.ms=50000, DEFAULT_CONFIG:group.consumer.session.timeout.ms=45000}"},
		{DescribeClientMetrics(pairs("interval.ms", "100000")), "interval.ms=100000 CLIENT_METRICS_CONFIG ro=false {CLIENT_METRICS_CONFIG:interval.ms=100000}"},
		{DescribeClientMetrics(nil), "match= DEFAULT_CONFIG ro=false {}"},
	}
	for _, test := range tests {
		name, _, _ := strings.Cut(test.want, "=")
		if got := text(find(t, test.entries, name)); got != test.want {
			t.Errorf("\n got %s\nwant %s", got, test.want)
		}
	}
}

func TestDescribedKeysAreSortedTypedAndDocumented(t *testing.T) {
	l := Layers{Static: static(t, nil)}
	for kind, entries := range map[string][]Entry{
		"broker": l.DescribeBroker(), "topic": l.DescribeTopic(nil), "group": l.DescribeGroup(nil), "client-metrics": DescribeClientMetrics(nil),
	} {
		if !slices.IsSortedFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) }) {
			t.Errorf("%s: not sorted", kind)
		}
		for _, e := range entries {
			if e.Type == kmsg.ConfigTypeUnknown || e.Doc == "" {
				t.Errorf("%s key %s: type %v, documentation %q", kind, e.Name, e.Type, e.Doc)
			}
			if e.Name == "leader.replication.throttled.rate" || strings.HasPrefix(e.Name, "internal.") {
				t.Errorf("%s key %s is described", kind, e.Name)
			}
		}
	}
}
