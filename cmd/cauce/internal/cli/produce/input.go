package produce

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/format"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/recordjson"
)

// maxRecordBytes bounds what is held in memory for one record; the client's largest request is as large.
const maxRecordBytes = 100 << 20

// layout says how input becomes records.
type layout struct {
	delimiter        string // ends a record; empty: the whole input is one
	keySeparator     string // between key and value; empty: no keys
	headersSeparator string // between headers and the rest; empty: no headers
	json             bool   // every record is an object as `cauce consume -o json` prints it
	null             *string
}

func (l layout) isNull(s string) bool { return l.null != nil && s == *l.null }

// records yields the records in r. The error it may end with names the record's number, from 1.
func (l layout) records(r io.Reader) iter.Seq2[*kgo.Record, error] {
	return func(yield func(*kgo.Record, error) bool) {
		scanner := bufio.NewScanner(r)
		scanner.Buffer(make([]byte, 64<<10), maxRecordBytes)
		scanner.Split(l.split)
		n := 0
		for scanner.Scan() {
			n++
			record, err := l.parse(scanner.Bytes())
			if err != nil {
				yield(nil, fmt.Errorf("record %d of the input: %w", n, err))
				return
			}
			if record != nil && !yield(record, nil) {
				return
			}
		}
		if err := scanner.Err(); err != nil {
			yield(nil, fmt.Errorf("record %d of the input: %w", n+1, err))
		}
	}
}

// split cuts at the delimiter. A last record without one counts, an empty one after the last
// delimiter does not.
func (l layout) split(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if l.delimiter != "" {
		if i := bytes.Index(data, []byte(l.delimiter)); i >= 0 {
			return i + len(l.delimiter), data[:i], nil
		}
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}

// parse returns nil for a blank line of JSON input.
func (l layout) parse(b []byte) (*kgo.Record, error) {
	if l.json {
		if len(bytes.TrimSpace(b)) == 0 {
			return nil, nil
		}
		return recordjson.Parse(b)
	}
	return l.parseText(string(b))
}

// parseText reads [HEADERS SEPARATOR] [KEY SEPARATOR] VALUE. Text without a key separator is a value
// without a key, as kcat has it.
func (l layout) parseText(text string) (*kgo.Record, error) {
	record := &kgo.Record{Partition: -1}
	if l.headersSeparator != "" {
		headers, rest, found := strings.Cut(text, l.headersSeparator)
		if !found {
			return nil, fmt.Errorf("no headers: there is no %q", l.headersSeparator)
		}
		var err error
		if record.Headers, err = format.ParseHeaders(headers, l.isNull); err != nil {
			return nil, err
		}
		text = rest
	}
	if l.keySeparator != "" {
		if key, rest, found := strings.Cut(text, l.keySeparator); found {
			record.Key = l.bytes(key)
			text = rest
		}
	}
	record.Value = l.bytes(text)
	return record, nil
}

func (l layout) bytes(s string) []byte {
	if l.isNull(s) {
		return nil
	}
	return []byte(s)
}

// repeated yields the values one after the other, over and over. Once through when repeat is false.
func (l layout) repeated(values []string, repeat bool) iter.Seq2[*kgo.Record, error] {
	return func(yield func(*kgo.Record, error) bool) {
		for {
			for i, value := range values {
				record, err := l.parse([]byte(value))
				if record == nil && err == nil {
					err = errors.New("blank, must be a JSON object")
				}
				if err != nil {
					yield(nil, fmt.Errorf("value %d: %w", i+1, err))
					return
				}
				if !yield(record, nil) {
					return
				}
			}
			if !repeat {
				return
			}
		}
	}
}
