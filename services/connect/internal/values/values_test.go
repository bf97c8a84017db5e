package values

import (
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin/data"
)

func dec(n int64, scale int32) data.Decimal {
	return data.Decimal{Unscaled: big.NewInt(n), Scale: scale}
}

func TestDecimals(t *testing.T) {
	for _, c := range []struct {
		d           data.Decimal
		java, plain string
	}{
		{dec(0, 0), "0", "0"}, {dec(0, 3), "0.000", "0.000"}, {dec(-5, 1), "-0.5", "-0.5"}, {dec(12345, 2), "123.45", "123.45"}, {dec(1, 7), "1E-7", "0.0000001"},
		{dec(12, -3), "1.2E+4", "12000"}, {dec(123, 10), "1.23E-8", "0.0000000123"}, {dec(-1, -1), "-1E+1", "-10"}, {data.Decimal{}, "0", "0"}, {dec(0, -2), "0E+2", "0"},
	} {
		if got := Decimal(c.d); got != c.java {
			t.Errorf("Decimal: %s, not %s", got, c.java)
		}
		if got, err := PlainDecimal(c.d); err != nil || got != c.plain {
			t.Errorf("PlainDecimal: %s, %v, not %s", got, err, c.plain)
		}
		if c.d.Unscaled == nil {
			continue
		}
		if back, err := ParseDecimal(c.java); err != nil || !back.Equal(c.d) {
			t.Errorf("%s is read as %v, %v", c.java, back, err)
		}
	}
	if text, err := PlainDecimal(dec(1, math.MaxInt32)); err == nil {
		t.Errorf("a decimal of %d digits is written out", len(text))
	}
	for _, text := range []string{"", "x", "1e99999999999", "1e10001", "1e", "--1", "1.2.3"} {
		if d, err := ParseDecimal(text); err == nil {
			t.Errorf("%q is %v", text, d)
		}
	}
}

func TestWhole(t *testing.T) {
	for d, want := range map[*data.Decimal]string{new(dec(1200, 2)): "12", new(dec(12, -2)): "1200", new(dec(125, 1)): "", new(dec(-50, 1)): "-5", new(data.Decimal{}): "0"} {
		n, whole := Whole(*d)
		if whole != (want != "") || whole && n.String() != want {
			t.Errorf("%s is %v, %t", Decimal(*d), n, whole)
		}
	}
}

func TestKeysAreInOrder(t *testing.T) {
	m := map[any]any{}
	for _, key := range []any{"b", "a", int8(10), int8(9), int64(-1), 2.5, float32(1), true, false} {
		m[key] = nil
	}
	if got := Plain(Keys(m)); got != "[false, true, 1.0, 2.5, -1, 9, 10, a, b]" {
		t.Error(got)
	}
}

func TestParseBoundsItsWork(t *testing.T) {
	for _, text := range []string{strings.Repeat("[", 1<<20), strings.Repeat("9", maxDigits+1), "1e10001", "1e999999999", strings.Repeat("{1:", 1<<20)} {
		if v := Parse(text); v.V != text {
			t.Errorf("%.20s… is %T", text, v.V)
		}
	}
}

func TestTimeByItsValue(t *testing.T) {
	for at, want := range map[time.Duration]string{0: "00:00:00.000Z", 24 * time.Hour: "1970-01-02", 24*time.Hour + time.Millisecond: "1970-01-02T00:00:00.001Z"} {
		if got := Time(time.UnixMilli(at.Milliseconds())); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
}

// FuzzParse checks that a text that is written of what was read stands for the same, and that what is read is valid.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"", "null", "12", "-1.5e3", "3.4e39", "99999999999999999999", "2020-01-02T03:04:05.678Z", `[1,2.5,"a\"b"]`, `{"a":[true,null],"b":{}}`, "{1:2}", "[2020-13-45]"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v := Parse(text)
		if err := v.Validate(); err != nil {
			t.Fatalf("%q is not valid: %v", text, err)
		}
		if s, ok := v.V.(string); ok {
			if s != text {
				t.Fatalf("%q is %q", text, s)
			}
			return
		}
		_ = Text(v.V)
		_ = Plain(v.V)
	})
}
