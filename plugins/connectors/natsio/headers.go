package natsio

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/plugins/connectors/internal/payload"
)

// controlPrefix begins the headers by which publishers steer JetStream: among others one that empties a stream.
const controlPrefix = "nats-"

// subjectHeader is the header of a record that has the subject of its message.
const subjectHeader = "nats.subject"

var textSchema = &data.Schema{Type: data.TypeString}

// fromMessage returns the headers of a record: the subject, then those of the message by their names.
func fromMessage(subject string, header nats.Header) []data.Header {
	headers := []data.Header{{Name: subjectHeader, Value: data.Value{Schema: textSchema, V: subject}}}
	names := make([]string, 0, len(header))
	for name := range header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, value := range header[name] {
			headers = append(headers, data.Header{Name: name, Value: data.Value{Schema: textSchema, V: strings.ToValidUTF8(value, "\uFFFD")}})
		}
	}
	return headers
}

// toMessage returns the headers of a message: those of a record, but for those by which publishers steer JetStream, and the
// subject that a record of the source has.
func toMessage(headers []data.Header) (nats.Header, error) {
	message := nats.Header{}
	for _, h := range headers {
		if strings.HasPrefix(strings.ToLower(h.Name), controlPrefix) || h.Name == subjectHeader {
			continue
		}
		var value []byte
		var err error
		if h.Value.V != nil {
			value, err = payload.Append(nil, h.Value)
		}
		switch {
		case err != nil:
			return nil, fmt.Errorf("header %.100q: %w", h.Name, err)
		case !validName(h.Name):
			return nil, fmt.Errorf("NATS has no header of the name %.100q", h.Name)
		case strings.ContainsAny(string(value), "\r\n") || strings.TrimSpace(string(value)) != string(value):
			return nil, fmt.Errorf("header %.100q: NATS keeps neither line breaks in a value nor blanks around it", h.Name)
		}
		message[h.Name] = append(message[h.Name], string(value))
	}
	return message, nil
}

// validName says whether a header can have a name: visible ASCII without colons.
func validName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == ':' })
}
