package schema

import (
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/cauce-stream/cauce/libs/coordinator"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const key = "0000 0002 7431"

// TestWrittenAsKafkaDoes compares what is written with Kafka's format, field by field.
func TestWrittenAsKafkaDoes(t *testing.T) {
	tests := []struct {
		name  string
		txn   *Transaction
		value string
	}{
		{"empty", &Transaction{ProducerID: 7, PreviousProducerID: -1, NextProducerID: -1, LastEpoch: -1, TimeoutMs: 60000, StartMs: -1, UpdateMs: 1700000000000},
			"0001 0000000000000007 0000 0000ea60 00 00 0000018bcfe56800 ffffffffffffffff 00"},
		{"ongoing", &Transaction{
			ProducerID: 7, PreviousProducerID: -1, NextProducerID: -1, Epoch: 3, LastEpoch: -1, TimeoutMs: 60000, State: Ongoing,
			Partitions: []Partition{{"a", 0}, {"a", 2}, {"b", 1}}, StartMs: 1700000000000, UpdateMs: 1700000000001, ClientVersion: 2,
		}, "0001 0000000000000007 0003 0000ea60 01 03 0261 03 00000000 00000002 00 0262 02 00000001 00 0000018bcfe56801 0000018bcfe56800 01 02 02 0002"},
		{"another producer id follows", &Transaction{
			ProducerID: 7, PreviousProducerID: 6, NextProducerID: 8, Epoch: 32767, LastEpoch: 32766, TimeoutMs: 1, State: PrepareAbort,
			Partitions: []Partition{{"a", 0}}, StartMs: 0, UpdateMs: 1, ClientVersion: 2,
		}, "0001 0000000000000007 7fff 00000001 03 02 0261 02 00000000 00 0000000000000001 0000000000000000" +
			"04 00 08 0000000000000006 01 08 0000000000000008 02 02 0002 64 02 7ffe"},
		{"complete", &Transaction{ProducerID: 7, PreviousProducerID: -1, NextProducerID: -1, LastEpoch: -1, TimeoutMs: 1, State: CompleteCommit, StartMs: 0, UpdateMs: 1},
			"0001 0000000000000007 0000 00000001 04 01 0000000000000001 0000000000000000 00"},
		{"forgotten", nil, ""},
	}
	for _, test := range tests {
		r := Encode("t1", test.txn)
		if got := hex.EncodeToString(r.Key); got != strings.ReplaceAll(key, " ", "") {
			t.Errorf("%s: key %s", test.name, got)
		}
		if got := hex.EncodeToString(r.Value); got != strings.ReplaceAll(test.value, " ", "") || (r.Value == nil) != (test.txn == nil) {
			t.Errorf("%s: value\n%s, want\n%s", test.name, got, test.value)
		}
		id, back, err := Decode(r)
		if err != nil || id != "t1" || !reflect.DeepEqual(back, test.txn) {
			t.Errorf("%s: read back %q %+v, %v", test.name, id, back, err)
		}
	}
}

// TestReadsTheOldFormat reads what a coordinator below transaction.version 1 writes.
func TestReadsTheOldFormat(t *testing.T) {
	value := unhex(t, "0000 0000000000000007 0003 0000ea60 02 00000001 0001 62 00000002 00000003 00000001 0000018bcfe56801 0000018bcfe56800")
	want := &Transaction{
		ProducerID: 7, PreviousProducerID: -1, NextProducerID: -1, Epoch: 3, LastEpoch: -1, TimeoutMs: 60000, State: PrepareCommit,
		Partitions: []Partition{{"b", 1}, {"b", 3}}, StartMs: 1700000000000, UpdateMs: 1700000000001,
	}
	id, got, err := Decode(coordinator.Record{Key: unhex(t, key), Value: value})
	if err != nil || id != "t1" || !reflect.DeepEqual(got, want) {
		t.Errorf("%q %+v, %v", id, got, err)
	}
}

func TestBadRecords(t *testing.T) {
	unknown := coordinator.Record{Key: unhex(t, "0001 0002 7431"), Value: []byte{0}}
	if _, _, err := Decode(unknown); !errors.Is(err, ErrUnknownType) {
		t.Errorf("a record of type 1: %v", err)
	}
	tests := []struct{ name, key, value, want string }{
		{"no type", "00", "", "no type"},
		{"cut key", "0000 0009 7431", "", "key"},
		{"no version", key, "00", "no version"},
		{"newer version", key, "0002 00", "version 2"},
		{"cut value", key, "0001 0000000000000007", `"t1"`},
		{"impossible state", key, "0001 0000000000000007 0000 00000001 06 01 0000000000000001 0000000000000000 00", "state 6"},
	}
	for _, test := range tests {
		r := coordinator.Record{Key: unhex(t, test.key), Value: unhex(t, test.value)}
		if _, _, err := Decode(r); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}

func TestStateNames(t *testing.T) {
	for s := Empty; s <= PrepareEpochFence; s++ {
		if back, ok := StateOf(s.String()); !ok || back != s {
			t.Errorf("%d is %s, which is %d", s, s, back)
		}
	}
	if _, ok := StateOf("Nothing"); ok {
		t.Error("there is a state Nothing")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(unhex(f, key), unhex(f, "0001 0000000000000007 0003 0000ea60 01 03 0261 03 00000000 00000002 00 0262 02 00000001 00 0000018bcfe56801 0000018bcfe56800 01 02 02 0002"))
	f.Add(unhex(f, key), unhex(f, "0000 0000000000000007 0003 0000ea60 02 00000001 0001 62 00000002 00000003 00000001 0000018bcfe56801 0000018bcfe56800"))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		id, txn, err := Decode(coordinator.Record{Key: key, Value: value})
		if err != nil {
			return
		}
		if txn != nil && txn.State == Empty {
			txn.Partitions = nil // as Kafka, which writes none
		}
		again, back, err := Decode(Encode(id, txn))
		if err != nil || again != id || !reflect.DeepEqual(back, txn) {
			t.Errorf("%+v became %+v, %v", txn, back, err)
		}
	})
}
