package snapshot

import "testing"

func TestPartitions(t *testing.T) {
	set := Partitions{{"clicks", []int32{3}}, {"orders", []int32{0, 1, 2, 4, 7, 8}}}
	if got, want := set.String(), "clicks:3 orders:0-2,4,7-8"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	other := Partitions{{"clicks", []int32{3}}, {"orders", []int32{1, 8, 9}}}
	if got, want := set.Without(other).String(), "orders:0,2,4,7"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := set.Without(set).String() + Partitions(nil).String(); got != "" {
		t.Errorf("nothing is %q", got)
	}
	if !set.Has("orders", 7) || set.Has("orders", 3) || set.Has("nope", 0) {
		t.Error("Has is wrong")
	}
}
