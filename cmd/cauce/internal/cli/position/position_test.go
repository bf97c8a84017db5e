package position

import (
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	now := time.UnixMilli(1700000000000)
	tests := []struct {
		text string
		want Position
	}{
		{"beginning", Position{kind: beginning}},
		{"earliest", Position{kind: beginning}},
		{"end", Position{kind: ending}},
		{"latest", Position{kind: ending}},
		{"0", Position{kind: absolute}},
		{"42", Position{kind: absolute, n: 42}},
		{"-10", Position{kind: last, n: 10}},
		{"-0", Position{kind: ending}},
		{"@1600000000000", Position{kind: atTime, n: 1600000000000}},
		{"@2023-11-14T22:13:20Z", Position{kind: atTime, n: 1700000000000}},
		{"@-15m", Position{kind: atTime, n: 1700000000000 - 15*60*1000}},
	}
	for _, test := range tests {
		test.want.text = test.text
		if got, err := Parse(test.text, now); err != nil || got != test.want {
			t.Errorf("Parse(%q) = %+v, %v, want %+v", test.text, got, err, test.want)
		}
	}
	for _, text := range []string{"", "x", "@", "@x", "@-x", "@-5", "1.5", "--3"} {
		if got, err := Parse(text, now); err == nil {
			t.Errorf("Parse(%q) was accepted as %+v", text, got)
		}
	}
}
