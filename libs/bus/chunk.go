package bus

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"
)

// A message above the server's maximum payload travels as several, each with this header: id/index/count. One sender
// publishes them in order and nothing of its own between them.
const chunkHeader = "Cauce-Chunk"

// chunkOverheadBytes is kept free below the maximum payload for headers.
const chunkOverheadBytes = 4 << 10

// publishChunked sends m, in several messages if it must. Only the first carries m's own headers.
func publishChunked(nc *nats.Conn, m *nats.Msg) error {
	limit := int(nc.MaxPayload()) - chunkOverheadBytes
	if len(m.Data) <= limit || limit <= 0 {
		return nc.PublishMsg(m)
	}
	if len(m.Data) > MaxMessageBytes {
		return fmt.Errorf("%d bytes above %d: %w", len(m.Data), MaxMessageBytes, nats.ErrMaxPayload)
	}
	id, count := nuid.Next(), (len(m.Data)+limit-1)/limit
	for i := range count {
		part := &nats.Msg{Subject: m.Subject, Header: nats.Header{}, Data: m.Data[i*limit : min((i+1)*limit, len(m.Data))]}
		if i == 0 && m.Header != nil {
			part.Header = m.Header
		}
		part.Header[chunkHeader] = []string{fmt.Sprintf("%s/%d/%d", id, i, count)}
		if err := nc.PublishMsg(part); err != nil {
			return err
		}
	}
	return nil
}

// assembler joins the chunks of one sender's messages. A message of which a chunk is missing is dropped, which its
// receiver notices as it notices any lost message.
type assembler struct {
	id    string
	next  int
	parts [][]byte
	size  int
	first nats.Header
}

// add returns a whole message's header and data once m completes one.
func (a *assembler) add(m *nats.Msg) (nats.Header, []byte, bool) {
	values := m.Header[chunkHeader]
	if len(values) == 0 {
		return m.Header, m.Data, true
	}
	id, index, count, ok := parseChunk(values[0])
	if !ok {
		*a = assembler{}
		return nil, nil, false
	}
	if index == 0 {
		*a = assembler{id: id, first: m.Header}
	}
	if id != a.id || index != a.next || a.size+len(m.Data) > MaxMessageBytes {
		*a = assembler{}
		return nil, nil, false
	}
	a.parts = append(a.parts, m.Data)
	a.size += len(m.Data)
	a.next++
	if a.next < count {
		return nil, nil, false
	}
	whole := make([]byte, 0, a.size)
	for _, p := range a.parts {
		whole = append(whole, p...)
	}
	header := a.first
	*a = assembler{}
	return header, whole, true
}

func parseChunk(s string) (id string, index, count int, ok bool) {
	fields := strings.Split(s, "/")
	if len(fields) != 3 {
		return "", 0, 0, false
	}
	index, err1 := strconv.Atoi(fields[1])
	count, err2 := strconv.Atoi(fields[2])
	return fields[0], index, count, err1 == nil && err2 == nil && index >= 0 && index < count
}
