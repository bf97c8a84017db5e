package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
)

var (
	// ErrNoResponder says that nobody serves the subject now: for an endpoint of the active controller, that there is none.
	// The request was not handled.
	ErrNoResponder = errors.New("bus: no responder")
	// ErrTimeout says that no answer came in time. Whether the request was handled is not known.
	ErrTimeout = errors.New("bus: request timed out")
	// ErrUnavailable says that the connection to the bus is down or closed. Whether the request was handled is not known.
	ErrUnavailable = errors.New("bus: unavailable")
	// ErrTooLarge says that a request exceeds the bus's maximum payload; it was not sent.
	ErrTooLarge = errors.New("bus: message too large")
)

// RemoteError is a fault that the responder met outside of its protocol's own error codes.
type RemoteError struct {
	Subject string
	Message string
}

func (e *RemoteError) Error() string {
	return fmt.Sprintf("bus: %s answered: %s", e.Subject, e.Message)
}

// sendError maps the client library's errors on this package's.
func sendError(subject string, err error) error {
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: %s: %w", ErrTooLarge, subject, err)
	default:
		return fmt.Errorf("%w: %s: %w", ErrUnavailable, subject, err)
	}
}

// waitError tells a caller's own cancellation from a deadline that passed.
func waitError(subject string, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %s: %w", ErrTimeout, subject, err)
	}
	return fmt.Errorf("bus: %s: %w", subject, err)
}
