package exit

import (
	"errors"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
)

type answer struct {
	code *kerr.Error
	text string
}

func (a *answer) Error() string { return a.text + " (" + a.code.Message + ")" }
func (a *answer) Unwrap() error { return a.code }

// Answer words a fault that a server answered with: its own message where it sent a useful one,
// otherwise the error code's description, and the code's name in brackets. Errors that carry no Kafka code come
// back as they are.
func Answer(err error, message string) error {
	code, ok := errors.AsType[*kerr.Error](err)
	if !ok {
		return err
	}
	switch {
	case code == kerr.UnknownTopicOrPartition:
		message = "does not exist"
	case message == "":
		message = code.Description
	}
	return &answer{code, strings.TrimSuffix(strings.TrimSpace(message), ".")}
}
