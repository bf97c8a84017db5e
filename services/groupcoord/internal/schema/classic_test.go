package schema

import (
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/coordinator"
	"github.com/cauce-stream/cauce/libs/metadata"
)

// The bytes are those that Apache Kafka 4.4.0's own message classes write.
const (
	offsetKey  = "00010002673100066f726465727300000007"
	groupKey   = "000200026731"
	groupValue = "00030008636f6e73756d657200000003000572616e676500026d310000018bcfe568000000000200026d3100026931000163000a" +
		"2f3132372e302e302e310000ea6000002710000000020001000000010200026d32ffff000163000a2f3132372e302e302e310000ea60000027100000000000000000"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func pointer(s string) *string { return &s }

func goldenGroup(timestampMs int64) *kmsg.GroupMetadataValue {
	return &kmsg.GroupMetadataValue{
		ProtocolType: "consumer", Generation: 3, Protocol: pointer("range"), Leader: pointer("m1"), CurrentStateTimestamp: timestampMs,
		Members: []kmsg.GroupMetadataValueMember{
			{MemberID: "m1", InstanceID: pointer("i1"), ClientID: "c", ClientHost: "/127.0.0.1", RebalanceTimeoutMillis: 60000, SessionTimeoutMillis: 10000, Subscription: []byte{0, 1}, Assignment: []byte{2}},
			{MemberID: "m2", ClientID: "c", ClientHost: "/127.0.0.1", RebalanceTimeoutMillis: 60000, SessionTimeoutMillis: 10000, Subscription: []byte{}, Assignment: []byte{}},
		},
	}
}

var topicID = metadata.TopicID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}

// TestWrittenAsKafkaDoes compares what is written, byte by byte, and reads it back.
func TestWrittenAsKafkaDoes(t *testing.T) {
	offset := OffsetValue{Offset: 1000, LeaderEpoch: 5, Metadata: "mé", CommitTimestampMs: 1700000000000, ExpireTimestampMs: -1}
	withTopicID, expiring := offset, offset
	withTopicID.TopicID = topicID
	expiring.ExpireTimestampMs, expiring.LeaderEpoch = 1700000060000, -1
	empty := &kmsg.GroupMetadataValue{ProtocolType: "consumer", Generation: 4, CurrentStateTimestamp: 1700000000000}
	tests := []struct {
		name       string
		record     Record
		key, value string
	}{
		{"offset", &OffsetCommit{Group: "g1", Topic: "orders", Partition: 7, Value: &offset}, offsetKey, "000400000000000003e800000005046dc3a90000018bcfe5680000"},
		{"offset with topic id", &OffsetCommit{Group: "g1", Topic: "orders", Partition: 7, Value: &withTopicID}, offsetKey,
			"000400000000000003e800000005046dc3a90000018bcfe568000100100102030405060708090a0b0c0d0e0f10"},
		{"offset that expires", &OffsetCommit{Group: "g1", Topic: "orders", Partition: 7, Value: &expiring}, offsetKey,
			"000100000000000003e800036dc3a90000018bcfe568000000018bcfe65260"},
		{"offset tombstone", &OffsetCommit{Group: "g1", Topic: "orders", Partition: 7}, offsetKey, ""},
		{"group", &GroupMetadata{Group: "g1", Value: goldenGroup(1700000000000)}, groupKey, groupValue},
		{"empty group", &GroupMetadata{Group: "g1", Value: empty}, groupKey, "00030008636f6e73756d657200000004ffffffff0000018bcfe5680000000000"},
		{"group tombstone", &GroupMetadata{Group: "g1"}, groupKey, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := Encode(test.record)
			if got := hex.EncodeToString(r.Key); got != test.key {
				t.Errorf("key\n got %s\nwant %s", got, test.key)
			}
			if got := hex.EncodeToString(r.Value); got != test.value || (r.Value == nil) != (test.value == "") {
				t.Errorf("value\n got %s\nwant %s", got, test.value)
			}
			back, err := Decode(r)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(withoutVersion(back), test.record) {
				t.Errorf("read back %+v, want %+v", back, test.record)
			}
		})
	}
}

// withoutVersion leaves out what Encode sets.
func withoutVersion(r Record) Record {
	if g, ok := r.(*GroupMetadata); ok && g.Value != nil {
		v := *g.Value
		v.Version = 0
		return &GroupMetadata{Group: g.Group, Value: &v}
	}
	return r
}

// TestReadsOlderVersions reads each version of a value that a cluster may still hold.
func TestReadsOlderVersions(t *testing.T) {
	offsets := []struct {
		value       string
		leaderEpoch int32
	}{
		{"000000000000000003e800036dc3a90000018bcfe56800", -1},
		{"000100000000000003e800036dc3a90000018bcfe56800ffffffffffffffff", -1},
		{"000200000000000003e800036dc3a90000018bcfe56800", -1},
		{"000300000000000003e80000000500036dc3a90000018bcfe56800", 5},
	}
	for _, test := range offsets {
		got, err := Decode(coordinator.Record{Key: unhex(t, offsetKey), Value: unhex(t, test.value)})
		want := &OffsetCommit{Group: "g1", Topic: "orders", Partition: 7, Value: &OffsetValue{
			Offset: 1000, LeaderEpoch: test.leaderEpoch, Metadata: "mé", CommitTimestampMs: 1700000000000, ExpireTimestampMs: -1}}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", test.value, got, err)
		}
	}
	groups := []struct {
		value       string
		timestampMs int64
		instances   bool
		timeoutMs   int32
	}{
		{"00000008636f6e73756d657200000003000572616e676500026d310000000200026d31000163000a2f3132372e302e302e3100002710000000020001000000010200026d32000163000a2f3132372e302e302e31000027100000000000000000", -1, false, -1},
		{"00010008636f6e73756d657200000003000572616e676500026d310000000200026d31000163000a2f3132372e302e302e310000ea6000002710000000020001000000010200026d32000163000a2f3132372e302e302e310000ea60000027100000000000000000", -1, false, 60000},
		{"00020008636f6e73756d657200000003000572616e676500026d310000018bcfe568000000000200026d31000163000a2f3132372e302e302e310000ea6000002710000000020001000000010200026d32000163000a2f3132372e302e302e310000ea60000027100000000000000000", 1700000000000, false, 60000},
		{"000409636f6e73756d6572000000030672616e6765036d310000018bcfe5680003036d3103693102630b2f3132372e302e302e310000ea6000002710030001020200036d320002630b2f3132372e302e302e310000ea600000271001010000", 1700000000000, true, 60000},
	}
	for _, test := range groups {
		got, err := Decode(coordinator.Record{Key: unhex(t, groupKey), Value: unhex(t, test.value)})
		if err != nil {
			t.Errorf("%s: %v", test.value, err)
			continue
		}
		want := goldenGroup(test.timestampMs)
		for i := range want.Members {
			want.Members[i].RebalanceTimeoutMillis = test.timeoutMs
			if !test.instances {
				want.Members[i].InstanceID = nil
			}
		}
		if !reflect.DeepEqual(withoutVersion(got), &GroupMetadata{Group: "g1", Value: want}) {
			t.Errorf("%s: %+v", test.value, got)
		}
	}
}

func TestRefusesWhatItCannotRead(t *testing.T) {
	tests := []struct {
		name, key, value, want string
	}{
		{"no type", "00", "", "no type"},
		{"short key", "00010002", "", "key"},
		{"newer value", offsetKey, "0005", "version 5"},
		{"negative version", groupKey, "ffff", "version -1"},
		{"no version", groupKey, "00", "no version"},
		{"short value", offsetKey, "00030000", "value"},
		{"more members than bytes", groupKey, "00000000000000010000ffff7fffffff", "value"},
	}
	for _, test := range tests {
		r := coordinator.Record{Key: unhex(t, test.key)}
		if test.value != "" {
			r.Value = unhex(t, test.value)
		}
		if got, err := Decode(r); err == nil || !strings.Contains(err.Error(), test.want) || errors.Is(err, ErrUnknownType) {
			t.Errorf("%s: %+v, %v", test.name, got, err)
		}
	}
	if _, err := Decode(coordinator.Record{Key: []byte{0x7f, 0xff, 1}}); !errors.Is(err, ErrUnknownType) {
		t.Errorf("unknown type: %v", err)
	}
}

// FuzzDecode feeds arbitrary records; what is read must survive being written and read again.
func FuzzDecode(f *testing.F) {
	f.Add(unhex(f, offsetKey), unhex(f, "000400000000000003e800000005046dc3a90000018bcfe568000100100102030405060708090a0b0c0d0e0f10"))
	f.Add(unhex(f, offsetKey), unhex(f, "000100000000000003e800036dc3a90000018bcfe568000000018bcfe65260"))
	f.Add(unhex(f, groupKey), unhex(f, groupValue))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		first, err := Decode(coordinator.Record{Key: key, Value: value})
		if err != nil {
			return
		}
		second, err := Decode(Encode(first))
		if err != nil {
			t.Fatalf("%+v does not survive: %v", first, err)
		}
		// Comparing what is written leaves out the difference between nil and empty, and tags that are not kept.
		if a, b := Encode(first), Encode(second); !reflect.DeepEqual(a, b) {
			t.Errorf("%x became %x", a, b)
		}
	})
}
