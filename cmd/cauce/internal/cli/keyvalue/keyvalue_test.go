package keyvalue

import "testing"

func TestList(t *testing.T) {
	var l List
	for _, s := range []string{"a=1", "b=", "a=x=y"} {
		if err := l.Set(s); err != nil {
			t.Fatalf("Set(%q): %v", s, err)
		}
	}
	if got, want := l.String(), "a=1,b=,a=x=y"; got != want || l.Len() != 3 {
		t.Errorf("got %q (%d), want %q", got, l.Len(), want)
	}
	for key, value := range l.All() {
		if key != "a" || value != "1" {
			t.Errorf("first pair is %q=%q", key, value)
		}
		break
	}
	for _, s := range []string{"", "novalue", "=x"} {
		if err := l.Set(s); err == nil {
			t.Errorf("Set(%q) was accepted", s)
		}
	}
}
