package tracing

import (
	"encoding/hex"

	"go.opentelemetry.io/otel/trace"
)

// ParentHeader is the name under which W3C trace context has the parent's identity, in headers of records too.
const ParentHeader = "traceparent"

// parentBytes is how long an identity is: version, trace id, span id and flags in hexadecimal, with dashes.
const parentBytes = 2 + 1 + 32 + 1 + 16 + 1 + 2

// ParseParent reads a traceparent of W3C trace context; what it returns is not valid when that is none. It allocates nothing.
func ParseParent(b []byte) trace.SpanContext {
	none := trace.SpanContext{}
	if len(b) < parentBytes || b[2] != '-' || b[35] != '-' || b[52] != '-' {
		return none
	}
	var version, flags [1]byte
	c := trace.SpanContextConfig{Remote: true}
	for _, part := range []struct{ to, from []byte }{
		{version[:], b[:2]}, {c.TraceID[:], b[3:35]}, {c.SpanID[:], b[36:52]}, {flags[:], b[53:55]},
	} {
		for _, digit := range part.from {
			if digit >= 'A' && digit <= 'F' {
				return none
			}
		}
		if _, err := hex.Decode(part.to, part.from); err != nil {
			return none
		}
	}
	// A later version may have more behind a dash.
	if version[0] == 0xff || version[0] == 0 && len(b) > parentBytes || len(b) > parentBytes && b[parentBytes] != '-' {
		return none
	}
	c.TraceFlags = trace.TraceFlags(flags[0]) & trace.FlagsSampled
	sc := trace.NewSpanContext(c)
	if !sc.IsValid() {
		return none
	}
	return sc
}

// AppendParent appends the traceparent of a span's identity, which is valid.
func AppendParent(dst []byte, sc trace.SpanContext) []byte {
	traceID, spanID := sc.TraceID(), sc.SpanID()
	dst = hex.AppendEncode(append(dst, "00-"...), traceID[:])
	dst = hex.AppendEncode(append(dst, '-'), spanID[:])
	return hex.AppendEncode(append(dst, '-'), []byte{byte(sc.TraceFlags() & trace.FlagsSampled)})
}
