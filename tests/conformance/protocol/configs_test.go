//go:build conformance

package protocol

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/tests/conformance/internal/wire"
)

type configs map[string]kmsg.DescribeConfigsResponseResourceConfig

// describe reads the configs of a resource, all of them when no names are given.
func describe(t *testing.T, c *wire.Conn, version int16, kind kmsg.ConfigResourceType, name string, keys ...string) configs {
	t.Helper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version, req.IncludeSynonyms, req.IncludeDocumentation = version, true, true
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.ConfigNames = kind, name, keys
	req.Resources = append(req.Resources, r)
	res := do[*kmsg.DescribeConfigsResponse](t, c, req).Resources[0]
	wantCode(t, fmt.Sprintf("describe configs of %v %q", kind, name), res.ErrorCode, nil)
	out := configs{}
	for _, config := range res.Configs {
		out[config.Name] = config
	}
	return out
}

func (c configs) want(t *testing.T, key, value string, source kmsg.ConfigSource) {
	t.Helper()
	got, ok := c[key]
	if !ok {
		t.Errorf("%s is not described", key)
		return
	}
	if got.Value == nil || *got.Value != value || got.Source != source {
		t.Errorf("%s: value %v from %v, want %s from %v", key, text(got.Value), got.Source, value, source)
	}
}

// await returns once a key of a topic reads as it was set: in Kafka a change reaches the node that describes it later than
// the answer to the alteration.
func await(t *testing.T, c *wire.Conn, topic, key, value string, source kmsg.ConfigSource) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(settleTimeout); ; <-tick.C {
		got := describe(t, c, 4, kmsg.ConfigResourceTypeTopic, topic, key)
		if config := got[key]; config.Value != nil && *config.Value == value && config.Source == source {
			return
		}
		if time.Now().After(deadline) {
			got.want(t, key, value, source)
			t.FailNow()
		}
	}
}

func text(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

func wantSynonyms(t *testing.T, config kmsg.DescribeConfigsResponseResourceConfig, want ...kmsg.ConfigSource) {
	t.Helper()
	var got []kmsg.ConfigSource
	for _, s := range config.ConfigSynonyms {
		got = append(got, s.Source)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: synonyms from %v, want %v", config.Name, got, want)
	}
}

type op struct {
	op    kmsg.IncrementalAlterConfigOp
	key   string
	value *string
}

// alter sends one IncrementalAlterConfigs for a topic and returns its error code.
func alter(t *testing.T, c *wire.Conn, topic string, validateOnly bool, ops ...op) int16 {
	t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version, req.ValidateOnly = 1, validateOnly
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	for _, o := range ops {
		config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		config.Op, config.Name, config.Value = o.op, o.key, o.value
		r.Configs = append(r.Configs, config)
	}
	req.Resources = append(req.Resources, r)
	return do[*kmsg.IncrementalAlterConfigsResponse](t, c, req).Resources[0].ErrorCode
}

// replace sends one AlterConfigs for a topic with keys and values in turn.
func replace(t *testing.T, c *wire.Conn, topic string, validateOnly bool, keysAndValues ...string) int16 {
	t.Helper()
	req := kmsg.NewPtrAlterConfigsRequest()
	req.Version, req.ValidateOnly = 2, validateOnly
	r := kmsg.NewAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	for i := 0; i < len(keysAndValues); i += 2 {
		config := kmsg.NewAlterConfigsRequestResourceConfig()
		config.Name, config.Value = keysAndValues[i], &keysAndValues[i+1]
		r.Configs = append(r.Configs, config)
	}
	req.Resources = append(req.Resources, r)
	return do[*kmsg.AlterConfigsResponse](t, c, req).Resources[0].ErrorCode
}

const (
	set      = kmsg.IncrementalAlterConfigOpSet
	unset    = kmsg.IncrementalAlterConfigOpDelete
	plus     = kmsg.IncrementalAlterConfigOpAppend
	minus    = kmsg.IncrementalAlterConfigOpSubtract
	ofTopic  = kmsg.ConfigSourceDynamicTopicConfig
	ofNobody = kmsg.ConfigSourceDefaultConfig
)

func value(s string) *string { return &s }

// TestValueEqualToTheDefaultIsStillSet (BL-082).
func TestValueEqualToTheDefaultIsStillSet(t *testing.T) {
	c := dial(t)
	topic := newTopic(t, c, "equal", 1, "cleanup.policy", "delete")
	wantCode(t, "set", alter(t, c, topic.Name, false, op{set, "max.message.bytes", value("1048588")}), nil)
	await(t, c, topic.Name, "max.message.bytes", "1048588", ofTopic)
	for version := int16(1); version <= 4; version++ {
		got := describe(t, c, version, kmsg.ConfigResourceTypeTopic, topic.Name)
		got.want(t, "cleanup.policy", "delete", ofTopic)
		got.want(t, "max.message.bytes", "1048588", ofTopic)
		got.want(t, "retention.ms", "604800000", ofNobody)
		wantSynonyms(t, got["cleanup.policy"], ofTopic, ofNobody)
		wantSynonyms(t, got["max.message.bytes"], ofTopic, ofNobody)
		if s := got["max.message.bytes"].ConfigSynonyms; len(s) == 2 && (s[0].Name != "max.message.bytes" || s[1].Name != "message.max.bytes") {
			t.Errorf("v%d: synonyms of max.message.bytes: %+v", version, s)
		}
		if version >= 3 {
			config := got["max.message.bytes"]
			if config.ConfigType != kmsg.ConfigTypeInt || config.Documentation == nil || *config.Documentation == "" {
				t.Errorf("v%d: max.message.bytes has type %v and documentation %v", version, config.ConfigType, text(config.Documentation))
			}
		}
	}
	wantCode(t, "delete", alter(t, c, topic.Name, false, op{unset, "cleanup.policy", nil}), nil)
	await(t, c, topic.Name, "cleanup.policy", "delete", ofNobody)
	got := describe(t, c, 4, kmsg.ConfigResourceTypeTopic, topic.Name, "cleanup.policy")
	got.want(t, "cleanup.policy", "delete", ofNobody)
	if len(got) != 1 {
		t.Errorf("asked for one key, got %d", len(got))
	}
}

// TestAlterConfigsReplaces, IncrementalAlterConfigs touches what it names, and validating changes nothing (BL-083).
func TestAlterConfigsReplaces(t *testing.T) {
	c := dial(t)
	topic := newTopic(t, c, "replace", 1, "retention.ms", "1000000", "segment.ms", "2000000")
	current := func() configs {
		return describe(t, c, 4, kmsg.ConfigResourceTypeTopic, topic.Name, "retention.ms", "segment.ms")
	}
	wantCode(t, "validate replacing", replace(t, c, topic.Name, true, "retention.ms", "3000000"), nil)
	wantCode(t, "validate touching", alter(t, c, topic.Name, true, op{set, "segment.ms", value("3000000")}), nil)
	wantCode(t, "validate a bad value", replace(t, c, topic.Name, true, "retention.ms", "soon"), kerr.InvalidConfig)
	got := current()
	got.want(t, "retention.ms", "1000000", ofTopic)
	got.want(t, "segment.ms", "2000000", ofTopic)

	wantCode(t, "touch", alter(t, c, topic.Name, false, op{set, "retention.ms", value("4000000")}), nil)
	await(t, c, topic.Name, "retention.ms", "4000000", ofTopic)
	got = current()
	got.want(t, "retention.ms", "4000000", ofTopic)
	got.want(t, "segment.ms", "2000000", ofTopic)

	wantCode(t, "replace", replace(t, c, topic.Name, false, "retention.ms", "5000000"), nil)
	await(t, c, topic.Name, "retention.ms", "5000000", ofTopic)
	got = current()
	got.want(t, "retention.ms", "5000000", ofTopic)
	got.want(t, "segment.ms", "604800000", ofNobody)
}

// TestOddAlterations: null values, repeated keys, and lists (BL-084).
func TestOddAlterations(t *testing.T) {
	c := dial(t)
	topic := newTopic(t, c, "odd", 1)
	for _, tc := range []struct {
		name string
		ops  []op
		want *kerr.Error
	}{
		{"set to null", []op{{set, "retention.ms", nil}}, kerr.InvalidRequest},
		{"append null", []op{{plus, "cleanup.policy", nil}}, kerr.InvalidRequest},
		{"the same key twice", []op{{set, "retention.ms", value("1")}, {set, "retention.ms", value("2")}}, kerr.InvalidRequest},
		{"append to what is no list", []op{{plus, "retention.ms", value("1")}}, kerr.InvalidConfig},
		{"unknown key", []op{{set, "retention.mss", value("1")}}, kerr.InvalidConfig},
		{"delete an unset key", []op{{unset, "retention.ms", nil}}, nil},
		{"subtract what is absent", []op{{minus, "cleanup.policy", value("compact")}}, nil},
		{"append", []op{{plus, "cleanup.policy", value("compact")}}, nil},
		{"append what is there", []op{{plus, "cleanup.policy", value("compact")}}, nil},
	} {
		wantCode(t, tc.name, alter(t, c, topic.Name, false, tc.ops...), tc.want)
	}
	await(t, c, topic.Name, "cleanup.policy", "delete,compact", ofTopic)
	got := describe(t, c, 4, kmsg.ConfigResourceTypeTopic, topic.Name)
	got.want(t, "retention.ms", "604800000", ofNobody)
	wantCode(t, "subtract", alter(t, c, topic.Name, false, op{minus, "cleanup.policy", value("delete")}), nil)
	await(t, c, topic.Name, "cleanup.policy", "compact", ofTopic)

	absent := alter(t, c, "protocol-"+run+"-absent", false, op{set, "retention.ms", value("1")})
	wantCode(t, "a topic that is not there", absent, kerr.UnknownTopicOrPartition)
}

// TestBrokerConfigsAreComplete: the keys that clients are known to read, as text and typed, for each broker (BL-109).
func TestBrokerConfigsAreComplete(t *testing.T) {
	c := dial(t)
	topic := newTopic(t, c, "probe", 1)
	got := describe(t, c, 4, kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(topic.Leader)))
	for key, kind := range map[string]kmsg.ConfigType{
		"num.partitions": kmsg.ConfigTypeInt, "default.replication.factor": kmsg.ConfigTypeInt, "min.insync.replicas": kmsg.ConfigTypeInt,
		"log.retention.hours": kmsg.ConfigTypeInt, "log.retention.ms": kmsg.ConfigTypeLong, "log.retention.bytes": kmsg.ConfigTypeLong,
		"log.segment.bytes": kmsg.ConfigTypeInt, "log.cleanup.policy": kmsg.ConfigTypeList,
		"auto.create.topics.enable": kmsg.ConfigTypeBoolean, "delete.topic.enable": kmsg.ConfigTypeBoolean,
		"message.max.bytes": kmsg.ConfigTypeInt, "socket.request.max.bytes": kmsg.ConfigTypeInt, "compression.type": kmsg.ConfigTypeString,
		"offsets.topic.num.partitions": kmsg.ConfigTypeInt, "offsets.topic.replication.factor": kmsg.ConfigTypeShort,
		"offsets.retention.minutes": kmsg.ConfigTypeInt, "transaction.max.timeout.ms": kmsg.ConfigTypeInt,
		"group.max.session.timeout.ms": kmsg.ConfigTypeInt, "log.message.timestamp.type": kmsg.ConfigTypeString,
		"unclean.leader.election.enable": kmsg.ConfigTypeBoolean, "replica.lag.time.max.ms": kmsg.ConfigTypeLong,
		"advertised.listeners": kmsg.ConfigTypeList, "listeners": kmsg.ConfigTypeList, "node.id": kmsg.ConfigTypeInt,
	} {
		config, ok := got[key]
		if !ok {
			t.Errorf("%s is not described", key)
		} else if config.ConfigType != kind {
			t.Errorf("%s has type %v, want %v", key, config.ConfigType, kind)
		}
	}
	got.want(t, "num.partitions", "1", ofNobody)
	got.want(t, "message.max.bytes", "1048588", ofNobody)
	if !got["num.partitions"].ReadOnly || got["log.retention.ms"].ReadOnly {
		t.Errorf("read-only: num.partitions %v, log.retention.ms %v, want true, false", got["num.partitions"].ReadOnly, got["log.retention.ms"].ReadOnly)
	}
	for key, config := range got {
		if config.IsSensitive && config.Value != nil {
			t.Errorf("%s is sensitive and its value is shown", key)
		}
	}
	describe(t, c, 4, kmsg.ConfigResourceTypeBroker, "") // the defaults of all brokers: only what was set
}

// TestLogDirsAreDescribed (BL-110).
func TestLogDirsAreDescribed(t *testing.T) {
	c := dial(t)
	topic := newTopic(t, c, "dirs", 2)
	appendBatch(t, c, topic.Name, 0, wire.Batch{Records: records(10, baseMs)})
	for version := int16(1); version <= 4; version++ {
		all := kmsg.NewPtrDescribeLogDirsRequest()
		all.Version = version
		one := kmsg.NewPtrDescribeLogDirsRequest()
		one.Version = version
		rt := kmsg.NewDescribeLogDirsRequestTopic()
		rt.Topic, rt.Partitions = topic.Name, []int32{0, 1}
		one.Topics = append(one.Topics, rt)
		for _, req := range []*kmsg.DescribeLogDirsRequest{all, one} {
			checkLogDirs(t, do[*kmsg.DescribeLogDirsResponse](t, c, req), version, topic.Name)
		}
	}
	none := kmsg.NewPtrDescribeLogDirsRequest()
	none.Version = 4
	rt := kmsg.NewDescribeLogDirsRequestTopic()
	rt.Topic, rt.Partitions = "protocol-"+run+"-absent", []int32{0}
	none.Topics = append(none.Topics, rt)
	for _, dir := range do[*kmsg.DescribeLogDirsResponse](t, c, none).Dirs {
		wantCode(t, "dir without the topic", dir.ErrorCode, nil)
		if len(dir.Topics) != 0 {
			t.Errorf("an absent topic is described: %+v", dir.Topics)
		}
	}
}

func checkLogDirs(t *testing.T, res *kmsg.DescribeLogDirsResponse, version int16, topic string) {
	t.Helper()
	sizes := map[int32]int64{}
	for _, dir := range res.Dirs {
		wantCode(t, dir.Dir, dir.ErrorCode, nil)
		if version >= 4 && (dir.TotalBytes <= 0 || dir.UsableBytes <= 0 || dir.UsableBytes > dir.TotalBytes) {
			t.Errorf("v%d: %s has %d of %d bytes usable", version, dir.Dir, dir.UsableBytes, dir.TotalBytes)
		}
		for _, dt := range dir.Topics {
			if dt.Topic != topic {
				continue
			}
			for _, p := range dt.Partitions {
				sizes[p.Partition] = p.Size
				if p.OffsetLag != 0 || p.IsFuture {
					t.Errorf("v%d: partition %d has lag %d, future %v", version, p.Partition, p.OffsetLag, p.IsFuture)
				}
			}
		}
	}
	if len(sizes) != 2 || sizes[0] <= wire.HeaderSize || sizes[1] != 0 {
		t.Errorf("v%d: sizes by partition %v, want some bytes and none", version, sizes)
	}
}
