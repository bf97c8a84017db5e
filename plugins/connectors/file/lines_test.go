package file

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"
)

// pieces is a file that is read in pieces, and that has an end between any two of them.
type pieces struct {
	text  []byte
	size  int
	ended bool
}

func (p *pieces) Read(into []byte) (int, error) {
	if p.ended = !p.ended; p.ended || len(p.text) == 0 {
		return 0, io.EOF
	}
	n := copy(into, p.text[:min(len(p.text), p.size)])
	p.text = p.text[n:]
	return n, nil
}

// cut returns all lines, and how many bytes they take.
func cut(t *testing.T, text []byte, size int) (all []string, taken int) {
	t.Helper()
	p := &pieces{text: slices.Clone(text), size: max(size, 1)}
	var l lines
	for misses := 0; misses < 2 || len(p.text) > 0; {
		line, n, err := l.next(p)
		if err != nil {
			t.Fatal(err)
		}
		if misses++; n > 0 {
			all, taken, misses = append(all, string(line)), taken+n, 0
		}
	}
	return all, taken
}

func TestLines(t *testing.T) {
	tests := []struct {
		text string
		want []string
		rest int
	}{
		{"", nil, 0},
		{"a\nbc\n", []string{"a", "bc"}, 0},
		{"a\r\nb\rc\n", []string{"a", "b", "c"}, 0},
		{"\n\r\n\r\r\n", []string{"", "", "", ""}, 0},
		{"a\nno end", []string{"a"}, 6},
		{"a\r", nil, 2}, // \n may follow
		{strings.Repeat("x", 3*firstBufferBytes) + "\nlast\n", []string{strings.Repeat("x", 3*firstBufferBytes), "last"}, 0},
	}
	for _, test := range tests {
		for _, size := range []int{1, 2, 3, 1000, firstBufferBytes} {
			if len(test.text) > 100 && size < 1000 {
				continue
			}
			got, taken := cut(t, []byte(test.text), size)
			if !slices.Equal(got, test.want) || taken != len(test.text)-test.rest {
				t.Errorf("%.20q by %d: %.100q, %d bytes", test.text, size, got, taken)
			}
		}
	}
}

func TestALineWithoutAnEnd(t *testing.T) {
	var l lines
	if _, _, err := l.next(bytes.NewReader(make([]byte, maxLineBytes+1))); err == nil || !strings.Contains(err.Error(), "16777216") {
		t.Errorf("next: %v", err)
	}
}

// FuzzLines cuts any text, read in pieces of any size, as it would be cut if it came at once.
func FuzzLines(f *testing.F) {
	f.Add([]byte("a\r\nb\rc\n\n\r"), 1)
	f.Add([]byte("\r\r\n\n"), 2)
	f.Fuzz(func(t *testing.T, text []byte, size int) {
		got, taken := cut(t, text, size)
		whole := text
		if bytes.HasSuffix(whole, []byte{'\r'}) {
			whole = whole[:len(whole)-1]
		}
		normal := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(whole))
		want := strings.Split(normal, "\n")
		rest := len(want[len(want)-1])
		if len(whole) < len(text) {
			rest++
		}
		if !slices.Equal(got, want[:len(want)-1]) || taken != len(text)-rest {
			t.Errorf("%q by %d: %q, %d bytes, want %q, %d", text, size, got, taken, want, len(text)-rest)
		}
	})
}
