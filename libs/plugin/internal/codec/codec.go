// Package codec writes and reads gRPC's messages as gRPC's own codec does, in memory that suits batches of records: of the sizes
// that gRPC pools, 1 MiB follows 32 KiB, and it clears what it takes.
package codec

import (
	"fmt"
	"sync"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// Both ends of a connection have these.
const (
	// WindowBytes is how much of a stream may be under way. By default it would be a fraction of a batch of records.
	WindowBytes = 4 << 20
	// BufferBytes is how much is read and written at once: most batches of records.
	BufferBytes = 128 << 10
)

// New returns a codec of protobuf's messages, for both ends of a connection.
func New() encoding.CodecV2 { return &codec{} }

type codec struct{ buffers buffers }

// Name is the default codec's, which the other end may have.
func (*codec) Name() string { return "proto" }

func (c *codec) Marshal(v any) (mem.BufferSlice, error) {
	message, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("marshal: %T is no message", v)
	}
	size := proto.Size(message)
	buffer := c.buffers.Get(size)
	var err error
	if *buffer, err = (proto.MarshalOptions{UseCachedSize: true}).MarshalAppend((*buffer)[:0], message); err != nil {
		return nil, err
	}
	return mem.BufferSlice{mem.NewBuffer(buffer, &c.buffers)}, nil
}

func (c *codec) Unmarshal(data mem.BufferSlice, v any) error {
	message, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("unmarshal: %T is no message", v)
	}
	buffer := data.MaterializeToBuffer(&c.buffers)
	defer buffer.Free()
	return proto.Unmarshal(buffer.ReadOnlyData(), message)
}

// maxKeptBytes bounds what is kept for other messages: a record may have 60 MiB.
const maxKeptBytes = 1 << 20

// buffers is a mem.BufferPool. What it gives is full of what was there before.
type buffers struct{ free sync.Pool }

func (b *buffers) Get(length int) *[]byte {
	if kept, ok := b.free.Get().(*[]byte); ok && cap(*kept) >= length {
		*kept = (*kept)[:length]
		return kept
	}
	made := make([]byte, length)
	return &made
}

func (b *buffers) Put(buffer *[]byte) {
	if cap(*buffer) <= maxKeptBytes {
		b.free.Put(buffer)
	}
}
