package client

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.opentelemetry.io/otel/trace"

	"github.com/cauce-stream/cauce/libs/tracing"
)

const (
	// correlationIDAt is where a frame's correlation id lies, after its length, API key and version.
	correlationIDAt = 8
	// traceContextTag is the tagged field of the request header in which our servers look for a W3C traceparent; others
	// skip it (KIP-482).
	traceContextTag = 0x6361
	// apiVersionsVersion is what versions are asked for with: the first flexible one, which every Kafka since 2.4 knows.
	apiVersionsVersion = 3
	softwareName       = "cauce"
	softwareVersion    = "internal"
)

type versionRange struct{ min, max int16 }

// negotiate asks the other side for the versions it knows, before anything else is sent. Whoever calls it bounds its time.
func (c *conn) negotiate() error {
	resp, err := c.askVersions(apiVersionsVersion)
	if err == nil && resp.ErrorCode == kerr.UnsupportedVersion.Code {
		resp, err = c.askVersions(0)
	}
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return err
	}
	c.versions = make(map[int16]versionRange, len(resp.ApiKeys))
	for _, k := range resp.ApiKeys {
		c.versions[k.ApiKey] = versionRange{k.MinVersion, k.MaxVersion}
	}
	return nil
}

func (c *conn) askVersions(version int16) (*kmsg.ApiVersionsResponse, error) {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = softwareName, softwareVersion
	req.SetVersion(version)
	if _, err := c.nc.Write(appendRequest(context.Background(), nil, c.config.ClientID, req)); err != nil {
		return nil, err
	}
	frame, err := readFrame(c.in, c.config.MaxResponseBytes)
	if err != nil {
		return nil, err
	}
	body := frame[4:]
	resp := req.ResponseKind().(*kmsg.ApiVersionsResponse)
	if len(body) >= 2 && int16(binary.BigEndian.Uint16(body)) == kerr.UnsupportedVersion.Code {
		resp.SetVersion(0) // what this error comes in, whatever was asked (KIP-511)
	}
	return resp, resp.ReadFrom(body)
}

// setVersion gives the request the highest version that both sides know.
func (c *conn) setVersion(req kmsg.Request) error {
	known, ok := c.versions[req.Key()]
	version := min(req.MaxVersion(), known.max)
	if !ok || version < known.min {
		return fmt.Errorf("versions %d to %d are known there, 0 to %d here: %w", known.min, known.max, req.MaxVersion(), kerr.UnsupportedVersion)
	}
	req.SetVersion(version)
	return nil
}

// wantsAnswer is false for a produce request with acks=0, the only one that has none.
func wantsAnswer(req kmsg.Request) bool {
	produce, ok := req.(*kmsg.ProduceRequest)
	return !ok || produce.Acks != 0
}

// appendRequest appends a frame without its correlation id. A span in ctx goes into the header of a flexible version.
func appendRequest(ctx context.Context, dst []byte, clientID string, req kmsg.Request) []byte {
	be := binary.BigEndian
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = be.AppendUint16(dst, uint16(req.Key()))
	dst = be.AppendUint16(dst, uint16(req.GetVersion()))
	dst = append(dst, 0, 0, 0, 0)
	dst = be.AppendUint16(dst, uint16(len(clientID)))
	dst = append(dst, clientID...)
	if req.IsFlexible() {
		dst = appendTags(ctx, dst)
	}
	dst = req.AppendTo(dst)
	be.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst
}

func appendTags(ctx context.Context, dst []byte) []byte {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() {
		return append(dst, 0)
	}
	dst = append(dst, 1)
	dst = binary.AppendUvarint(dst, traceContextTag)
	at := len(dst)
	dst = tracing.AppendParent(append(dst, 0), span)
	dst[at] = byte(len(dst) - at - 1)
	return dst
}

var errHeaderTags = errors.New("answer's header is cut short")

// decodeAnswer decodes what follows the correlation id. The response keeps references into body.
func decodeAnswer(resp kmsg.Response, body []byte) error {
	if resp.IsFlexible() && resp.Key() != int16(kmsg.ApiVersions) {
		var err error
		if body, err = skipTags(body); err != nil {
			return err
		}
	}
	if unsafe, ok := resp.(kmsg.UnsafeReadFrom); ok {
		return unsafe.UnsafeReadFrom(body)
	}
	return resp.ReadFrom(body)
}

func skipTags(b []byte) ([]byte, error) {
	count, n := binary.Uvarint(b)
	for ; n > 0; count-- {
		b = b[n:]
		if count == 0 {
			return b, nil
		}
		if _, n = binary.Uvarint(b); n <= 0 {
			break
		}
		b = b[n:]
		size, m := binary.Uvarint(b)
		if m <= 0 || size > uint64(len(b)-m) {
			break
		}
		n = m + int(size)
	}
	return nil, errHeaderTags
}
