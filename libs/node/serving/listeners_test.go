package serving

import (
	"slices"
	"strings"
	"testing"
)

func TestParseListeners(t *testing.T) {
	got, err := parseListeners("listeners", []string{"plaintext://:9092", "INTERNAL://[::1]:0"})
	if err != nil {
		t.Fatal(err)
	}
	if want := []listener{{"PLAINTEXT", "", 9092}, {"INTERNAL", "::1", 0}}; !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for text, fault := range map[string]string{
		"127.0.0.1:9092":        "NAME://",
		"://127.0.0.1:9092":     "NAME://",
		"PLAINTEXT://127.0.0.1": "NAME://host:port",
		"PLAINTEXT://h:70000":   "65535",
		"PLAINTEXT://h:1,A://x": "",
	} {
		if _, err := parseListeners("listeners", strings.Split(text, ",")); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%s: error %v, want one that says %q", text, err, fault)
		}
	}
	if _, err := parseListeners("listeners", []string{"A://h:1", "A://h:2"}); err == nil {
		t.Error("a repeated name is accepted")
	}
	if _, err := parseListeners("listeners", []string{"A://h:1", "B://h:1"}); err == nil {
		t.Error("a repeated address is accepted")
	}
}

func TestAdvertise(t *testing.T) {
	bound := []listener{{"A", "127.0.0.1", 4001}, {"B", "10.0.0.1", 4002}}
	got, err := advertise(bound, []listener{{"B", "example.org", 0}})
	if err != nil {
		t.Fatal(err)
	}
	if want := []listener{{"A", "127.0.0.1", 4001}, {"B", "example.org", 4002}}; !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	if _, err := advertise(bound, []listener{{"C", "h", 1}}); err == nil {
		t.Error("an advertised listener that is not bound is accepted")
	}
	if got, err := advertise([]listener{{"A", "0.0.0.0", 1}}, nil); err != nil || got[0].host == "0.0.0.0" || got[0].host == "" {
		t.Errorf("all addresses are advertised as %v, %v", got, err)
	}
}
