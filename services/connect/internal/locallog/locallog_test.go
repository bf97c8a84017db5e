package locallog

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cauce-stream/cauce/services/connect/internal/topiclog"
	"github.com/cauce-stream/cauce/services/connect/internal/topicwriter"
)

func TestTheFileKeepsTheNewestOfEachKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "offsets")
	open := func() (*Log, *[]string) {
		t.Helper()
		var seen []string
		l, err := Open(file, func(r topiclog.Record) {
			if want := int64(len(seen)); r.Offset != want {
				t.Errorf("offset %d, want %d", r.Offset, want)
			}
			seen = append(seen, string(r.Key)+"="+string(r.Value))
		})
		if err != nil {
			t.Fatal(err)
		}
		return l, &seen
	}
	l, seen := open()
	for _, records := range [][]topicwriter.Record{
		{{Key: []byte("a"), Value: []byte("1")}, {Key: []byte("b"), Value: []byte("1")}},
		{{Key: []byte("a"), Value: []byte("2")}, {Key: []byte("b")}, {Key: []byte("c"), Value: []byte("1")}},
		nil,
	} {
		if err := l.Write(t.Context(), records); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"a=1", "b=1", "a=2", "b=", "c=1"}; !slices.Equal(*seen, want) {
		t.Errorf("seen %v, want %v", *seen, want)
	}
	_, seen = open()
	if want := []string{"a=2", "c=1"}; !slices.Equal(*seen, want) {
		t.Errorf("read back %v, want %v", *seen, want)
	}
	if left, err := filepath.Glob(file + ".*"); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if err := os.WriteFile(file, []byte("\xac\xed\x00\x05sr"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(file, func(topiclog.Record) {}); err == nil {
		t.Error("a file of Kafka's own is taken")
	}
}

// TestWhatIsHeldOfTombstones is nothing, and nothing at all without a file.
func TestWhatIsHeldOfTombstones(t *testing.T) {
	for _, file := range []string{"", filepath.Join(t.TempDir(), "offsets")} {
		l, err := Open(file, func(topiclog.Record) {})
		if err != nil {
			t.Fatal(err)
		}
		a, b := []byte("a"), []byte("b")
		for _, records := range [][]topicwriter.Record{{{Key: a, Value: a}, {Key: b, Value: b}}, {{Key: a}, {Key: []byte("never")}}, {{Key: a, Value: b}}, {{Key: b}, {Key: a}}} {
			if err := l.Write(t.Context(), records); err != nil {
				t.Fatal(err)
			}
			if file == "" && len(l.order)+len(l.newest) > 0 {
				t.Error("records are held for no file")
			}
		}
		if len(l.order)+len(l.newest) > 0 {
			t.Errorf("held: %v, %v", l.order, l.newest)
		}
	}
}
