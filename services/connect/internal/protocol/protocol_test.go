package protocol

import (
	"encoding/hex"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cauce-stream/cauce/services/connect/internal/jvmtest"
	"github.com/cauce-stream/cauce/services/connect/internal/work"
)

const url = "http://a:8083/"

// share is an assignment in the version, as much of it as the version has.
func share(v Version) *Assignment {
	a := &Assignment{
		Version: v, Leader: "m-1", LeaderURL: url, ConfigOffset: 9,
		Assigned: []work.Item{work.Connector("x"), {Connector: "x", Task: 0}, {Connector: "x", Task: 2}, work.Connector("y"), {Connector: "z", Task: 1}},
	}
	if v >= Compatible {
		a.Revoked = []work.Item{work.Connector("w"), {Connector: "w", Task: 0}, {Connector: "z", Task: 3}}
		a.DelayMs = 1234
	}
	return a
}

func mismatch(v Version) *Assignment {
	return &Assignment{Version: v, Code: ConfigMismatch, Leader: "m-1", LeaderURL: url, ConfigOffset: 9}
}

// TestAsKafkaWritesIt compares with messages that Apache Kafka 4.3.1's own classes wrote; testdata/Codec.java made them.
func TestAsKafkaWritesIt(t *testing.T) {
	golden, err := os.ReadFile("testdata/kafka.golden")
	if err != nil {
		t.Fatal(err)
	}
	messages := map[string]any{
		"metadata-v0": &Metadata{URL: url, ConfigOffset: 7}, "assignment-v0": share(Eager), "assignment-error-v0": mismatch(Eager),
		"metadata-none-v1": &Metadata{Version: Compatible, URL: url, ConfigOffset: 7}, "metadata-none-v2": &Metadata{Version: Sessioned, URL: url, ConfigOffset: 7},
		"metadata-empty-v1": &Metadata{Version: Compatible, URL: url, ConfigOffset: 7}, "metadata-empty-v2": &Metadata{Version: Sessioned, URL: url, ConfigOffset: 7},
		"metadata-v1":   &Metadata{Version: Compatible, URL: url, ConfigOffset: 7, Current: share(Compatible)},
		"metadata-v2":   &Metadata{Version: Sessioned, URL: url, ConfigOffset: 7, Current: share(Sessioned)},
		"assignment-v1": share(Compatible), "assignment-v2": share(Sessioned), "assignment-error-v1": mismatch(Compatible), "assignment-error-v2": mismatch(Sessioned),
	}
	for line := range strings.Lines(string(golden)) {
		name, want, _ := strings.Cut(strings.TrimSpace(line), " ")
		theirs, err := hex.DecodeString(want)
		if err != nil {
			t.Fatal(err)
		}
		var ours []byte
		var back any
		switch m := messages[name].(type) {
		case *Metadata:
			ours = m.Encode()
			got, derr := DecodeMetadata(theirs)
			back, err = &got, derr
		case *Assignment:
			ours = m.Encode()
			got, derr := DecodeAssignment(theirs)
			back, err = &got, derr
		default:
			t.Fatalf("%s is not among the messages", name)
		}
		if hex.EncodeToString(ours) != want {
			t.Errorf("%s:\n %x is ours,\n %s is theirs", name, ours, want)
		}
		if err != nil || !reflect.DeepEqual(back, messages[name]) {
			t.Errorf("%s: read %+v, %v", name, back, err)
		}
		delete(messages, name)
	}
	for name := range messages {
		t.Errorf("%s is not among those that Kafka wrote", name)
	}
}

// TestRecordedMembers reads what two JVM workers had in their group.
func TestRecordedMembers(t *testing.T) {
	members := jvmtest.Members(t)
	if len(members) != 2 {
		t.Fatalf("%d members", len(members))
	}
	for _, m := range members {
		if v, ok := VersionOf(m.Protocol); !ok || v != Sessioned {
			t.Errorf("the group's protocol is %s", m.Protocol)
		}
		metadata, err := DecodeMetadata(m.Metadata)
		if err != nil || metadata.Version != Sessioned || !strings.HasPrefix(metadata.URL, "http://127.0.0.1:3808") || metadata.ConfigOffset == 0 {
			t.Errorf("%s: %+v, %v", m.ID, metadata, err)
		}
		a, err := DecodeAssignment(m.Assignment)
		if err != nil || a.Code != NoError || a.Leader == "" || a.ConfigOffset < metadata.ConfigOffset {
			t.Errorf("%s: %+v, %v", m.ID, a, err)
		}
		// A worker gives up in order of its own, not by name.
		if len(metadata.Encode()) != len(m.Metadata) || len(a.Encode()) != len(m.Assignment) {
			t.Errorf("%s: encoded anew it has another length", m.ID)
		}
	}
}

func TestVersions(t *testing.T) {
	if got := Sessioned.Offers(); !slices.Equal(got, []Version{Sessioned, Compatible, Eager}) {
		t.Errorf("sessioned offers %v", got)
	}
	if got := Eager.Offers(); !slices.Equal(got, []Version{Eager}) {
		t.Errorf("eager offers %v", got)
	}
	for v := Eager; v <= Sessioned; v++ {
		if got, ok := VersionOf(v.String()); !ok || got != v {
			t.Errorf("%v is read as %v", v, got)
		}
	}
	if v, ok := VersionOf("range"); ok {
		t.Errorf("range is %v", v)
	}
	newer := share(Sessioned).Encode()
	newer[1] = 7
	if a, err := DecodeAssignment(append(newer, 1, 2, 3)); err != nil || !reflect.DeepEqual(&a, share(Sessioned)) {
		t.Errorf("a newer version is read as %+v, %v", a, err)
	}
}

func TestBadMessages(t *testing.T) {
	whole := (&Metadata{Version: Sessioned, URL: url, ConfigOffset: 7, Current: share(Sessioned)}).Encode()
	for n := range whole {
		if m, err := DecodeMetadata(whole[:n]); err == nil {
			t.Errorf("%d of %d bytes are read as %+v", n, len(whole), m)
		}
	}
	negative := slices.Clone(whole)
	negative[0] = 0xff
	if m, err := DecodeMetadata(negative); err == nil {
		t.Errorf("a negative version is read as %+v", m)
	}
}

func FuzzDecode(f *testing.F) {
	for v := Eager; v <= Sessioned; v++ {
		f.Add(share(v).Encode())
		f.Add((&Metadata{Version: v, URL: url, ConfigOffset: 7, Current: share(v)}).Encode())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := DecodeMetadata(b); err == nil {
			if m.Current != nil {
				m.Current.Version = m.Version
			}
			again, err := DecodeMetadata(m.Encode())
			if err != nil || !equalMetadata(m, again) {
				t.Errorf("%+v is read back as %+v, %v", m, again, err)
			}
		}
		if a, err := DecodeAssignment(b); err == nil {
			again, err := DecodeAssignment(a.Encode())
			if err != nil || !reflect.DeepEqual(a, again) {
				t.Errorf("%+v is read back as %+v, %v", a, again, err)
			}
		}
	})
}

// equalMetadata passes over what a current assignment of another version than its metadata's loses.
func equalMetadata(a, b Metadata) bool {
	if a.Version < Compatible || a.Current == nil || b.Current == nil {
		return reflect.DeepEqual(a, b)
	}
	return a.URL == b.URL && a.ConfigOffset == b.ConfigOffset && reflect.DeepEqual(a.Current, b.Current)
}
