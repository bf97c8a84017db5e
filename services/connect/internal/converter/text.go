package converter

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/services/connect/internal/values"
)

var stringDefinition = configdef.Definition{{
	Name: "converter.encoding", Type: configdef.String, Default: new("UTF-8"), Importance: configdef.High, Width: configdef.MediumWidth, DisplayName: "Encoding",
	Doc: "The character set of texts: UTF-8, ISO-8859-1, US-ASCII, UTF-16, UTF-16BE or UTF-16LE.",
}}

var optionalString = &data.Schema{Type: data.TypeString, Optional: true}

// stringConverter is StringConverter: texts are what they are, of other values the text is written.
type stringConverter struct{ charset charset }

func newString(v configdef.Values, _ Use) (Converter, error) {
	name := v.String("converter.encoding")
	c, ok := charsets[strings.ToUpper(name)]
	if !ok {
		return nil, fmt.Errorf("converter.encoding is %q: one of UTF-8, ISO-8859-1, US-ASCII, UTF-16, UTF-16BE, UTF-16LE is wanted", name)
	}
	return stringConverter{c}, nil
}

func (c stringConverter) Encode(_ string, v data.Value) ([]byte, error) {
	if v.V == nil {
		return nil, nil
	}
	return c.charset.encode(values.Plain(v.V)), nil
}

func (c stringConverter) Decode(_ string, b []byte) (data.Value, error) {
	if b == nil {
		return data.Value{Schema: optionalString}, nil
	}
	return data.Value{Schema: optionalString, V: c.charset.decode(b)}, nil
}

// simpleHeader is SimpleHeaderConverter: what a header's text stands for is found out.
type simpleHeader struct{}

var headerString = &data.Schema{Type: data.TypeString}

func (simpleHeader) Encode(_ string, v data.Value) ([]byte, error) {
	if v.V == nil {
		return nil, nil
	}
	return []byte(values.Text(v.V)), nil
}

func (simpleHeader) Decode(_ string, b []byte) (data.Value, error) {
	switch {
	case b == nil:
		return data.Value{}, nil
	case len(b) == 0:
		return data.Value{Schema: headerString, V: ""}, nil
	}
	return values.Parse(decodeUTF8(b)), nil
}

// charset is a character set. Neither direction fails: what cannot be said becomes U+FFFD, or a question mark.
type charset struct {
	encode func(s string) []byte
	decode func(b []byte) string
}

var charsets = map[string]charset{
	"UTF-8":      {encodeUTF8, decodeUTF8},
	"UTF8":       {encodeUTF8, decodeUTF8},
	"ISO-8859-1": narrow(0xff),
	"US-ASCII":   narrow(0x7f),
	"UTF-16":     {func(s string) []byte { return wide(binary.BigEndian, "\ufeff"+s) }, decodeMarked},
	"UTF-16BE":   {func(s string) []byte { return wide(binary.BigEndian, s) }, func(b []byte) string { return narrowed(binary.BigEndian, b) }},
	"UTF-16LE":   {func(s string) []byte { return wide(binary.LittleEndian, s) }, func(b []byte) string { return narrowed(binary.LittleEndian, b) }},
}

// encodeUTF8 returns the memory of s, which is only read: records that are produced stay as they are.
func encodeUTF8(s string) []byte {
	if s == "" {
		return []byte{} // null would be a tombstone
	}
	return unsafe.Slice(unsafe.StringData(s), len(s))
}

// decodeUTF8 returns a text in the memory of b, where nothing may be written any more: what clients have read stays as it is. Malformed
// text is replaced; a sequence that breaks off becomes one replacement, as in Java.
func decodeUTF8(b []byte) string {
	if utf8.Valid(b) {
		return unsafe.String(unsafe.SliceData(b), len(b))
	}
	var s strings.Builder
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		if r == utf8.RuneError && size == 1 {
			size = brokenOff(b)
		}
		s.WriteRune(r)
		b = b[size:]
	}
	return s.String()
}

// brokenOff returns the size of the start of a sequence that does not go on as it should: at least a byte.
func brokenOff(b []byte) int {
	for size := min(3, len(b)); size > 1; size-- {
		if !utf8.FullRune(b[:size]) {
			return size
		}
	}
	return 1
}

// narrow is a character set of one byte to a character, of which there are those up to a largest.
func narrow(largest rune) charset {
	encode := func(s string) []byte {
		b := make([]byte, 0, len(s))
		for _, r := range s {
			if r > largest {
				r = '?'
			}
			b = append(b, byte(r))
		}
		return b
	}
	decode := func(b []byte) string {
		var s strings.Builder
		for _, c := range b {
			r := rune(c)
			if r > largest {
				r = utf8.RuneError
			}
			s.WriteRune(r)
		}
		return s.String()
	}
	return charset{encode, decode}
}

func wide(order binary.AppendByteOrder, s string) []byte {
	var b []byte
	for _, unit := range utf16.Encode([]rune(s)) {
		b = order.AppendUint16(b, unit)
	}
	return b
}

func narrowed(order binary.ByteOrder, b []byte) string {
	units := make([]uint16, len(b)/2)
	for i := range units {
		units[i] = order.Uint16(b[2*i:])
	}
	s := string(utf16.Decode(units))
	if len(b)%2 != 0 {
		s += string(utf8.RuneError)
	}
	return s
}

// decodeMarked reads UTF-16 in the order that its mark tells, big-endian without one.
func decodeMarked(b []byte) string {
	if len(b) >= 2 && b[0] == 0xff && b[1] == 0xfe {
		return narrowed(binary.LittleEndian, b[2:])
	}
	return strings.TrimPrefix(narrowed(binary.BigEndian, b), "\ufeff")
}
