package workload

import (
	"slices"
	"strings"
	"testing"
)

func TestWorkloadHasEveryKindOfRecord(t *testing.T) {
	g := NewGenerator(Shape{})
	seen := map[string]int{}
	for i := range 100_000 {
		r := g.Record(i, 3)
		seen["key "+kind(r.Key)]++
		seen["value "+kind(r.Value)]++
		if r.Key == nil && r.Value == nil {
			seen["all null"]++
		}
		if len(r.Headers) == 3 && r.Headers[1].Key == r.Headers[2].Key {
			seen["repeated header"]++
		}
		for _, h := range r.Headers {
			seen["header "+kind(h.Value)]++
		}
	}
	for _, k := range []string{
		"key null", "key empty", "key bytes", "value null", "value empty", "value bytes", "value big",
		"all null", "repeated header", "header null", "header empty", "header bytes",
	} {
		if seen[k] == 0 {
			t.Errorf("no record with %s", k)
		}
	}
	if seen["value big"] != 8 {
		t.Errorf("%d large values, want 8", seen["value big"])
	}
}

func kind(b []byte) string {
	switch {
	case b == nil:
		return "null"
	case len(b) == 0:
		return "empty"
	case len(b) >= BigValueSize:
		return "big"
	}
	return "bytes"
}

// The drivers in other languages implement the same definition: a change of these digests is a change of all of them.
func TestDigestIsPinned(t *testing.T) {
	got := Expect(3000, 3, Shape{}, Shape{})
	want := []PartitionDigest{
		{1000, "c73bcc56d42fcfb5a7c5cbea9635bdc9561c68339822a4b69908ba2860873bda"},
		{1000, "177621435a5d4fb6d9e1d837f2e507c0cd921147cb9f3767c3d0acd9edc94eaa"},
		{1000, "85ae8dbf971417a6931f723414b38065730cd322df860587761e7e995c8d8019"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestDigestRefusesAGap(t *testing.T) {
	d := NewDigest(1, Shape{})
	if err := d.Add(Record{Offset: 0}); err != nil {
		t.Fatal(err)
	}
	err := d.Add(Record{Offset: 2})
	if err == nil || !strings.Contains(err.Error(), "offset 2 came where 1 was due") {
		t.Errorf("got %v", err)
	}
}
