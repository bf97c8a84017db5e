package work

import (
	"slices"
	"testing"
)

func TestNames(t *testing.T) {
	for name, want := range map[string]Item{"c-0": {"c", 0}, "a-b-12": {"a-b", 12}, "-1": {"", 1}, "a--3": {"a-", 3}} {
		got, ok := ParseTask(name)
		if !ok || got != want || got.String() != name {
			t.Errorf("%s: %v %v, which is called %s", name, got, ok, got)
		}
	}
	for _, name := range []string{"", "c", "c-", "c-x", "c-99999999999", "c-1x"} {
		if got, ok := ParseTask(name); ok {
			t.Errorf("%q is taken for %v", name, got)
		}
	}
	if c := Connector("c"); c.String() != "c" || c.IsTask() {
		t.Errorf("connector: %v", c)
	}
}

func TestOrder(t *testing.T) {
	items := append(Tasks("b", 11), Connector("b"), Item{"a", 1}, Item{"a", 1}, Connector("c"))
	got := Sort(items)
	want := append([]Item{{"a", 1}, Connector("b")}, append(Tasks("b", 11), Connector("c"))...)
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}
