// Package wire encodes what hand-written responses share.
package wire

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Code is the Kafka error code of err: 0 for nil, UNKNOWN_SERVER_ERROR for an error that wraps no *kerr.Error.
func Code(err error) int16 {
	var k *kerr.Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &k):
		return k.Code
	default:
		return kerr.UnknownServerError.Code
	}
}

// Message is the text for an error_message field: nil for no error.
func Message(err error) *string {
	if err == nil {
		return nil
	}
	s := err.Error()
	return &s
}

// AppendArrayLen appends the length of an array, compact in flexible versions.
func AppendArrayLen(dst []byte, n int, flexible bool) []byte {
	if flexible {
		return kbin.AppendUvarint(dst, uint32(n)+1)
	}
	return kbin.AppendInt32(dst, int32(n))
}

// AppendNullableString appends a string or null, compact in flexible versions.
func AppendNullableString(dst []byte, s *string, flexible bool) []byte {
	if flexible {
		return kbin.AppendCompactNullableString(dst, s)
	}
	return kbin.AppendNullableString(dst, s)
}

// AppendString appends a string, compact in flexible versions.
func AppendString(dst []byte, s string, flexible bool) []byte {
	if flexible {
		return kbin.AppendCompactString(dst, s)
	}
	return kbin.AppendString(dst, s)
}
