// Package protocol is what the members of a group of Connect workers tell each other in JoinGroup and SyncGroup, in Apache Kafka's
// format (KIP-415, KIP-507).
//
// All integers are big-endian. A string has a length of two bytes, bytes and arrays one of four, where −1 is null.
package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/cauce-stream/cauce/services/connect/internal/work"
)

// Type is the protocol type of a group of workers.
const Type = "connect"

// Version is a version of the protocol, by the number that begins each message.
type Version int16

// The versions of the protocol.
const (
	// Eager has all work given up before each assignment.
	Eager Version = iota
	// Compatible moves differences only.
	Compatible
	// Sessioned is Compatible between workers that sign their requests to each other.
	Sessioned
)

var names = [...]string{"default", "compatible", "sessioned"}

// String is the name by which a member offers the version in JoinGroup, and the value of connect.protocol but for "eager".
func (v Version) String() string {
	if v < 0 || int(v) >= len(names) {
		return fmt.Sprintf("Version(%d)", int16(v))
	}
	return names[v]
}

// VersionOf is the version that the group chose by its name.
func VersionOf(name string) (Version, bool) {
	i := slices.Index(names[:], name)
	return Version(i), i >= 0
}

// Offers are the versions that a member with this highest version offers, the one it likes best first.
func (v Version) Offers() []Version {
	var offers []Version
	for o := v; o >= Eager; o-- {
		offers = append(offers, o)
	}
	return offers
}

// Metadata is what a member says of itself when it joins.
type Metadata struct {
	Version Version
	// URL is where its REST interface is reached.
	URL string
	// ConfigOffset is how far it has read the config topic: the next offset to read.
	ConfigOffset int64
	// Current is what it runs since the last assignment; nil when it runs nothing, or before version Compatible.
	Current *Assignment
}

// Code says whether an assignment can be followed.
type Code int16

// The codes of an assignment.
const (
	NoError Code = 0
	// ConfigMismatch tells everyone to read the config topic to its end and to join again: the leader could not.
	ConfigMismatch Code = 1
)

// Assignment is what the leader tells a member, and what a member tells the leader that it has.
type Assignment struct {
	Version Version
	Code    Code
	// Leader is the member id of the leader and LeaderURL its REST interface.
	Leader, LeaderURL string
	// ConfigOffset is that of the configuration the assignment was made with.
	ConfigOffset int64
	// Assigned and Revoked are in order of connector, a connector before its tasks. Before version Compatible Assigned is all of a
	// member's work and Revoked is absent; since then both are what changes.
	Assigned, Revoked []work.Item
	// DelayMs is after how long a member joins again so that work which is held back can be assigned; 0 for no such work.
	DelayMs int32
}

// Encode returns the message's bytes.
func (m *Metadata) Encode() []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(m.Version))
	b = appendString(b, m.URL)
	b = binary.BigEndian.AppendUint64(b, uint64(m.ConfigOffset))
	if m.Version < Compatible {
		return b
	}
	if m.Current == nil {
		return binary.BigEndian.AppendUint32(b, math.MaxUint32)
	}
	current := *m.Current
	current.Version = m.Version
	nested := current.Encode()
	b = binary.BigEndian.AppendUint32(b, uint32(len(nested)))
	return append(b, nested...)
}

// Encode returns the message's bytes.
func (a *Assignment) Encode() []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(a.Version))
	b = binary.BigEndian.AppendUint16(b, uint16(a.Code))
	b = appendString(b, a.Leader)
	b = appendString(b, a.LeaderURL)
	b = binary.BigEndian.AppendUint64(b, uint64(a.ConfigOffset))
	b = appendItems(b, a.Assigned)
	if a.Version < Compatible {
		return b
	}
	b = appendItems(b, a.Revoked)
	return binary.BigEndian.AppendUint32(b, uint32(a.DelayMs))
}

// appendString cuts what is longer than a length of two bytes can say, which no valid URL, member id or connector's name is.
func appendString(b []byte, s string) []byte {
	s = s[:min(len(s), math.MaxInt16)]
	b = binary.BigEndian.AppendUint16(b, uint16(len(s)))
	return append(b, s...)
}

// appendItems groups items, which are in order, by connector.
func appendItems(b []byte, items []work.Item) []byte {
	at, groups := len(b), uint32(0)
	b = binary.BigEndian.AppendUint32(b, 0)
	for len(items) > 0 {
		n := 1
		for n < len(items) && items[n].Connector == items[0].Connector {
			n++
		}
		b = appendString(b, items[0].Connector)
		b = binary.BigEndian.AppendUint32(b, uint32(n))
		for _, item := range items[:n] {
			b = binary.BigEndian.AppendUint32(b, uint32(item.Task))
		}
		items, groups = items[n:], groups+1
	}
	binary.BigEndian.PutUint32(b[at:], groups)
	return b
}

// DecodeMetadata reads what a member said of itself. A version above Sessioned is read as if it were that, as Kafka's workers do,
// and what may follow is passed over.
func DecodeMetadata(b []byte) (Metadata, error) {
	r := reader{b: b}
	m := Metadata{Version: r.version(), URL: r.string(), ConfigOffset: r.int64()}
	if m.Version >= Compatible {
		nested := r.bytes()
		if r.err == nil && nested != nil {
			a, err := DecodeAssignment(nested)
			if err != nil {
				return Metadata{}, fmt.Errorf("connect metadata: current %w", err)
			}
			m.Current = &a
		}
	}
	if r.err != nil {
		return Metadata{}, fmt.Errorf("connect metadata: %w", r.err)
	}
	return m, nil
}

// DecodeAssignment reads an assignment, as DecodeMetadata does.
func DecodeAssignment(b []byte) (Assignment, error) {
	r := reader{b: b}
	a := Assignment{
		Version: r.version(), Code: Code(r.int16()), Leader: r.string(), LeaderURL: r.string(), ConfigOffset: r.int64(),
		Assigned: r.items(),
	}
	if a.Version >= Compatible {
		a.Revoked = r.items()
		a.DelayMs = r.int32()
	}
	if r.err != nil {
		return Assignment{}, fmt.Errorf("assignment: %w", r.err)
	}
	return a, nil
}

var errShort = errors.New("is cut short")

// reader takes values off the front of b. After an error it returns zero values.
type reader struct {
	b   []byte
	err error
}

func (r *reader) take(n int) []byte {
	if r.err == nil && (n < 0 || n > len(r.b)) {
		r.err = errShort
	}
	if r.err != nil {
		return nil
	}
	taken := r.b[:n]
	r.b = r.b[n:]
	return taken
}

func (r *reader) int16() int16 {
	if b := r.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *reader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *reader) version() Version {
	v := r.int16()
	if v < 0 && r.err == nil {
		r.err = fmt.Errorf("has version %d", v)
	}
	return min(Version(v), Sessioned)
}

func (r *reader) string() string { return string(r.take(int(r.int16()))) }

// bytes returns nil for null.
func (r *reader) bytes() []byte {
	n := r.int32()
	if n == -1 {
		return nil
	}
	return r.take(int(n))
}

// items reads work by connector and puts it in order. A null array has none. Its memory is bounded by the bytes that are there.
func (r *reader) items() []work.Item {
	var items []work.Item
	for range r.int32() {
		connector := r.string()
		for range r.int32() {
			task := r.int32()
			if r.err != nil {
				return nil
			}
			if task < work.Instance {
				r.err = fmt.Errorf("has task %d of connector %q", task, connector)
				return nil
			}
			items = append(items, work.Item{Connector: connector, Task: task})
		}
		if r.err != nil {
			return nil
		}
	}
	return work.Sort(items)
}
