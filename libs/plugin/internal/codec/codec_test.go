package codec

import (
	"bytes"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/cauce-stream/cauce/libs/plugin/pluginpb"
)

// TestMessages writes and reads messages of sizes that share memory.
func TestMessages(t *testing.T) {
	c := New()
	for i, size := range []int{0, 10, 100_000, 50_000, 0, maxKeptBytes + 1, 99_999} {
		sent := &pluginpb.Put{Records: bytes.Repeat([]byte{byte('a' + i)}, size), More: i%2 == 0}
		data, err := c.Marshal(sent)
		if err != nil {
			t.Fatal(err)
		}
		// As it arrives, in parts.
		whole := data.Materialize()
		data.Free()
		arrived := mem.BufferSlice{mem.SliceBuffer(whole[:len(whole)/2]), mem.SliceBuffer(whole[len(whole)/2:])}
		got := &pluginpb.Put{}
		if err := c.Unmarshal(arrived, got); err != nil || !proto.Equal(got, sent) {
			t.Errorf("a message of %d bytes has arrived with %d: %v", size, len(got.Records), err)
		}
		before := bytes.Clone(got.Records)
		if other, err := c.Marshal(&pluginpb.Put{Records: bytes.Repeat([]byte("z"), size)}); err != nil {
			t.Fatal(err)
		} else {
			other.Free()
		}
		if !bytes.Equal(got.Records, before) {
			t.Error("what was read is in memory that is used again")
		}
	}
	if _, err := c.Marshal("text"); err == nil {
		t.Error("a text is no message")
	}
	if err := c.Unmarshal(nil, "text"); err == nil {
		t.Error("a text is no message")
	}
}
