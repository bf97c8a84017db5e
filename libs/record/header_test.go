package record

import (
	"bytes"
	"testing"
)

// headed is a batch whose first record has the headers, as pairs.
func headed(pairs ...string) Batch {
	body := []byte{0, 0, 0} // attributes, deltas
	varint := func(n int) { body = append(body, byte(n<<1)) }
	text := func(s string) { varint(len(s)); body = append(body, s...) }
	body = append(body, 1) // a null key
	text("value")
	varint(len(pairs) / 2)
	for _, s := range pairs {
		text(s)
	}
	b := make(Batch, HeaderSize)
	b[MagicAt] = 2
	b[CountAt+3] = 1
	return append(append(b, byte(len(body)<<1)), body...)
}

func TestFirstHeader(t *testing.T) {
	b := headed("other", "x", "traceparent", "00-abc")
	if got := b.FirstHeader("traceparent"); string(got) != "00-abc" {
		t.Errorf("%q", got)
	}
	if got := b.FirstHeader("absent"); got != nil {
		t.Errorf("a header that is not there: %q", got)
	}
	if n := testing.AllocsPerRun(100, func() { b.FirstHeader("traceparent") }); n != 0 && testing.CoverMode() == "" {
		t.Errorf("%v allocations", n)
	}
	builder := NewBuilder()
	builder.Append(1, []byte("key"), []byte("value"))
	plain, err := builder.AppendTo(nil, None, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := Batch(plain).FirstHeader("traceparent"); got != nil {
		t.Errorf("a record without headers: %q", got)
	}
	zipped, err := builder.AppendTo(nil, Gzip, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := Batch(zipped).FirstHeader("traceparent"); got != nil {
		t.Errorf("a compressed batch: %q", got)
	}
}

func FuzzFirstHeader(f *testing.F) {
	f.Add([]byte(headed("traceparent", "00-abc")))
	f.Add([]byte(headed("traceparent", "00-abc"))[:HeaderSize+4])
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < HeaderSize {
			return
		}
		if value := Batch(data).FirstHeader("traceparent"); len(value) > 0 && !bytes.Contains(data, value) {
			t.Errorf("%q is not in the batch", value)
		}
	})
}
