package record

import (
	"errors"
	"io"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

func build(t testing.TB, codec Codec, n int) Batch {
	t.Helper()
	b := NewBuilder()
	for i := range n {
		b.Append(1000+int64(i), []byte("key"), []byte("value"), Header{[]byte("h"), nil})
	}
	batch, err := b.Build(codec, 0)
	if err != nil {
		t.Fatal(err)
	}
	return batch
}

func TestNext(t *testing.T) {
	one, two := build(t, None, 1), build(t, None, 2)
	both := append(append([]byte{}, one...), two...)
	first, rest, err := Next(both)
	if err != nil || len(first) != len(one) {
		t.Fatalf("first: %d bytes, %v", len(first), err)
	}
	second, rest, err := Next(rest)
	if err != nil || second.Count() != 2 || len(rest) != 0 {
		t.Fatalf("second: %v, %d left", err, len(rest))
	}
	if _, _, err = Next(rest); err != io.EOF {
		t.Fatalf("end: %v", err)
	}
	for n := 1; n < len(one); n++ {
		if _, _, err := Next(one[:n]); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
	for _, at := range []int{LengthAt, MagicAt} {
		bad := append([]byte{}, one...)
		bad[at] = 0xff
		if _, _, err := Next(bad); !errors.Is(err, kerr.CorruptMessage) {
			t.Fatalf("byte %d: %v", at, err)
		}
	}
}

func TestValidateBuilt(t *testing.T) {
	s, err := Validate(build(t, None, 3), ValidateOptions{})
	if err != nil || s != (Summary{MaxTimestampMs: 1002, MaxTimestampDelta: 2, Count: 3}) {
		t.Fatalf("%+v, %v", s, err)
	}
}
