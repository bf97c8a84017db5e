package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/cauce-stream/cauce/libs/plugin/data"
)

// maxOffsetBytes bounds offsets and the names of pages, which are kept with each record.
const maxOffsetBytes = 8 << 10

// pointer is a JSON pointer (RFC 6901): the names and numbers that lead to a value.
type pointer []string

var pointerEscapes = strings.NewReplacer("~1", "/", "~0", "~")

func parsePointer(text string) (pointer, error) {
	if text == "" {
		return nil, nil
	}
	if text[0] != '/' {
		return nil, fmt.Errorf("the JSON pointer %.100q does not begin with a slash", text)
	}
	for i := range len(text) {
		if text[i] == '~' && (i+1 == len(text) || text[i+1] != '0' && text[i+1] != '1') {
			return nil, fmt.Errorf("the JSON pointer %.100q has a ~ that neither 0 nor 1 follows", text)
		}
	}
	parts := pointer(strings.Split(text[1:], "/"))
	for i := range parts {
		parts[i] = pointerEscapes.Replace(parts[i])
	}
	return parts, nil
}

// find returns the text of the value that a pointer leads to in a JSON text, nil when there is none.
func (p pointer) find(text []byte) ([]byte, error) {
	for _, part := range p {
		text = bytes.TrimLeft(text, " \t\r\n")
		switch {
		case len(text) > 0 && text[0] == '{':
			var members map[string]json.RawMessage
			if err := json.Unmarshal(text, &members); err != nil {
				return nil, err
			}
			text = members[part]
		case len(text) > 0 && text[0] == '[':
			var elements []json.RawMessage
			if err := json.Unmarshal(text, &elements); err != nil {
				return nil, err
			}
			n, err := strconv.ParseUint(part, 10, 31)
			if err != nil || n >= uint64(len(elements)) || part != strconv.FormatUint(n, 10) {
				return nil, nil
			}
			text = elements[n]
		default:
			return nil, nil
		}
		if text == nil {
			return nil, nil
		}
	}
	return text, nil
}

// scalar returns what a text of JSON says: a string's content, a number or a boolean as it is written, and "" for nothing
// and for null.
func scalar(text []byte) (string, error) {
	text = bytes.TrimSpace(text)
	switch {
	case len(text) == 0 || string(text) == "null":
		return "", nil
	case len(text) > maxOffsetBytes:
		return "", fmt.Errorf("it has %d bytes, more than %d", len(text), maxOffsetBytes)
	case text[0] == '{' || text[0] == '[':
		return "", fmt.Errorf("%.40s is neither a text nor a number", text)
	case text[0] != '"':
		return string(text), nil
	}
	var content string
	err := json.Unmarshal(text, &content)
	return content, err
}

// reading is what is wanted of an answer.
type reading struct {
	records, key, offset, cursor, page pointer
	hasKey, hasOffset, hasCursor       bool
	hasPage                            bool
	values                             string // their format
}

// page is what was read of an answer.
type page struct {
	records []entry
	cursor  string // for the next turn; "" for none
	next    string // where the next page is; "" for none
}

// entry is a record of an answer.
type entry struct {
	key, value data.Value
	offset     string
}

// read takes an answer apart. The error says where what is wanted is not.
func (r *reading) read(body []byte) (page, error) {
	var p page
	if len(bytes.TrimSpace(body)) == 0 {
		return p, nil
	}
	if !json.Valid(body) {
		return p, fmt.Errorf("the answer is not JSON: %w", json.Unmarshal(body, new(any)))
	}
	list, err := r.list(body)
	if err != nil {
		return p, err
	}
	for i, one := range list {
		e, err := r.entry(one)
		if err != nil {
			return p, fmt.Errorf("record %d of the answer: %w", i, err)
		}
		p.records = append(p.records, e)
	}
	if r.hasCursor {
		if p.cursor, err = r.text(r.cursor, body); err != nil {
			return p, fmt.Errorf("%s: %w", cursorPointerKey, err)
		}
	}
	if r.hasPage {
		if p.next, err = r.text(r.page, body); err != nil {
			return p, fmt.Errorf("%s: %w", pagePointerKey, err)
		}
		if p.next == "false" {
			p.next = ""
		}
	}
	return p, nil
}

// list returns the records: the elements of an array, or an object alone.
func (r *reading) list(body []byte) ([]json.RawMessage, error) {
	found, err := r.records.find(body)
	if err != nil {
		return nil, err
	}
	found = bytes.TrimSpace(found)
	switch {
	case len(found) == 0:
		return nil, fmt.Errorf("the answer has nothing at %s", recordsKey)
	case string(found) == "null":
		return nil, nil
	case found[0] == '{':
		return []json.RawMessage{found}, nil
	case found[0] == '[':
		var list []json.RawMessage
		err := json.Unmarshal(found, &list)
		return list, err
	}
	return nil, fmt.Errorf("what the answer has at %s is neither an array nor an object: %.40s", recordsKey, found)
}

// text is the text that a pointer leads to.
func (r *reading) text(p pointer, in []byte) (string, error) {
	found, err := p.find(in)
	if err != nil {
		return "", err
	}
	return scalar(found)
}

func (r *reading) entry(text []byte) (e entry, err error) {
	if r.hasOffset {
		if e.offset, err = r.text(r.offset, text); err == nil && e.offset == "" {
			err = errors.New("it has none")
		}
		if err != nil {
			return e, fmt.Errorf("%s: %w", offsetPointerKey, err)
		}
	}
	if r.hasKey {
		if e.key, err = r.keyOf(text); err != nil {
			return e, fmt.Errorf("%s: %w", keyPointerKey, err)
		}
	}
	if r.values == valuesText {
		e.value = data.Value{Schema: textSchema, V: string(text)}
		return e, nil
	}
	e.value.V, err = parseValue(text)
	return e, err
}

var textSchema = &data.Schema{Type: data.TypeString}

// keyOf is a string's content, and the text of any other JSON but null.
func (r *reading) keyOf(text []byte) (data.Value, error) {
	found, err := r.key.find(text)
	if err != nil || found == nil || string(found) == "null" {
		return data.Value{}, err
	}
	if found[0] == '"' {
		var content string
		err := json.Unmarshal(found, &content)
		return data.Value{Schema: textSchema, V: content}, err
	}
	return data.Value{Schema: textSchema, V: string(found)}, nil
}

// parseValue reads a JSON text as a value without a schema. Integers have 64 bits; what they cannot hold is an error.
func parseValue(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var parsed any
	if err := d.Decode(&parsed); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more behind the value")
	}
	return plain(parsed, 0)
}

func plain(parsed any, depth int) (any, error) {
	if depth >= data.MaxDepth {
		return nil, fmt.Errorf("it is nested more than %d deep", data.MaxDepth)
	}
	switch v := parsed.(type) {
	case json.Number:
		return number(v.String())
	case []any:
		for i := range v {
			var err error
			if v[i], err = plain(v[i], depth+1); err != nil {
				return nil, err
			}
		}
		return v, nil
	case map[string]any:
		m := make(map[any]any, len(v))
		for name, member := range v {
			var err error
			if m[name], err = plain(member, depth+1); err != nil {
				return nil, err
			}
		}
		return m, nil
	}
	return parsed, nil
}

func number(text string) (any, error) {
	if !strings.ContainsAny(text, ".eE") {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%.40s does not fit 64 bits: %s=%s takes any number", text, valuesKey, valuesText)
		}
		return n, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, fmt.Errorf("%.40s does not fit 64 bits: %s=%s takes any number", text, valuesKey, valuesText)
	}
	return f, nil
}
