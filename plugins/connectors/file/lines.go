package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

const (
	firstBufferBytes = 64 << 10
	// maxLineBytes bounds a line: a record cannot be much larger.
	maxLineBytes = 16 << 20
)

// lines cuts what is read into lines, which end with \n, \r\n or \r as in Java. What has no end yet is kept until more can be
// read.
type lines struct {
	buffer   []byte
	from, to int // what is read and not yet cut
	looked   int // up to where there is no end of a line
}

// next returns a line without its end, and how many bytes of the file it takes with it; 0 when no whole line can be read now.
// The line is valid until the next call.
func (l *lines) next(r io.Reader) (line []byte, size int, err error) {
	for {
		found := endOfLine(l.buffer[l.looked:l.to])
		if found < 0 {
			l.looked = l.to
		} else {
			end := l.looked + found
			// Whether \r ends the line alone shows what follows.
			if l.buffer[end] == '\n' || end+1 < l.to {
				line, after := l.buffer[l.from:end], end+1
				if l.buffer[end] == '\r' && l.buffer[after] == '\n' {
					after++
				}
				size = after - l.from
				l.from, l.looked = after, after
				return line, size, nil
			}
			l.looked = end
		}
		n, err := l.fill(r)
		if err != nil || n == 0 {
			return nil, 0, err
		}
	}
}

// endOfLine is where the first \n or \r is, or -1.
func endOfLine(text []byte) int {
	found := bytes.IndexByte(text, '\n')
	if found >= 0 {
		text = text[:found]
	}
	if before := bytes.IndexByte(text, '\r'); before >= 0 {
		found = before
	}
	return found
}

// fill reads more behind what there is; 0 at the end of the file.
func (l *lines) fill(r io.Reader) (int, error) {
	if l.from > 0 {
		copy(l.buffer, l.buffer[l.from:l.to])
		l.looked, l.to, l.from = l.looked-l.from, l.to-l.from, 0
	}
	if l.to == len(l.buffer) {
		if len(l.buffer) >= maxLineBytes {
			return 0, fmt.Errorf("a line of more than %d bytes", maxLineBytes)
		}
		l.buffer = append(l.buffer, make([]byte, max(firstBufferBytes, len(l.buffer)))...)
	}
	n, err := r.Read(l.buffer[l.to:])
	l.to += n
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}
