package output

import (
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	table := NewTable(Left("TOPIC"), Right("RECORDS"), Left("NOTE"))
	table.Row("orders", 7, "")
	table.Row("clicks-über", 123456, "busy")
	table.Row("short")
	var b strings.Builder
	if err := table.Write(&b); err != nil {
		t.Fatal(err)
	}
	want := "" +
		"TOPIC        RECORDS  NOTE\n" +
		"orders             7  -\n" +
		"clicks-über   123456  busy\n" +
		"short              -  -\n"
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

func TestTableWithoutTitles(t *testing.T) {
	table := NewTable(Left(""), Left(""))
	table.Row("Topic", "orders")
	table.Row("Partitions", 3)
	var b strings.Builder
	if err := table.Write(&b); err != nil {
		t.Fatal(err)
	}
	if want := "Topic       orders\nPartitions  3\n"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{
		-1: "-", 0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 5 << 30: "5.0 GiB", 1<<63 - 1: "8.0 EiB",
	} {
		if got := Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestWriteJSONKeepsAngles(t *testing.T) {
	var b strings.Builder
	if err := WriteJSON(&b, map[string]string{"v": "<a&b>"}); err != nil {
		t.Fatal(err)
	}
	if want := "{\n  \"v\": \"<a&b>\"\n}\n"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

func TestFormat(t *testing.T) {
	var f Format
	if err := f.Set("json"); err != nil || f != JSON {
		t.Errorf("Set(json) = %v, %q", err, f)
	}
	if err := f.Set("xml"); err == nil {
		t.Error("xml was accepted")
	}
}
