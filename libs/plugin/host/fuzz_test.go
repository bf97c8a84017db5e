package host

import (
	"bytes"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/proto"

	"github.com/cauce-stream/cauce/libs/plugin/pluginpb"
)

// FuzzOutput has a plugin write any bytes in pieces of any size: lines stay within their bound, and nothing that is no
// space is lost.
func FuzzOutput(f *testing.F) {
	f.Add([]byte("one\ntwo"), 3)
	f.Add([]byte(`{"level":"ERROR","msg":"x","a":1}`+"\n"+`{"@message":1,"@level":{},"level":"FATAL"}`+"\n"), 7)
	f.Add(bytes.Repeat([]byte("y"), 2*maxLineBytes+1), 1000)
	f.Fuzz(func(t *testing.T, text []byte, piece int) {
		core, logs := observer.New(zap.DebugLevel)
		o := &output{log: zap.New(core)}
		for rest := text; len(rest) > 0; {
			n := max(1, min(piece, len(rest)))
			if written, err := o.Write(rest[:n]); written != n || err != nil {
				t.Fatalf("wrote %d of %d, %v", written, n, err)
			}
			rest = rest[n:]
		}
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
		var logged []byte
		for _, line := range logs.All() {
			if len(line.Message) > maxLineBytes || line.Level > zapcore.ErrorLevel {
				t.Fatalf("level %v, %d bytes", line.Level, len(line.Message))
			}
			logged = append(logged, line.Message...)
		}
		if !bytes.Contains(text, []byte{'{'}) && !bytes.Equal(withoutSpace(logged), withoutSpace(text)) {
			t.Errorf("logged %q", logged)
		}
	})
}

func withoutSpace(b []byte) []byte { return bytes.Join(bytes.Fields(b), nil) }

// FuzzDecodeResponse reads any answer: what is taken names members and topics of the request.
func FuzzDecodeResponse(f *testing.F) {
	good, err := proto.Marshal(&pluginpb.AssignResponse{Members: []*pluginpb.MemberAssignment{{Member: 1, Partitions: []*pluginpb.TopicPartitions{{Topic: 2, Partitions: []int32{0, 1}}}}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, text []byte) {
		r := &pluginpb.AssignResponse{}
		if proto.Unmarshal(text, r) != nil {
			return
		}
		answer, err := decodeResponse(r, 2, 3)
		if err != nil {
			return
		}
		if len(answer) != 2 {
			t.Fatalf("%d members", len(answer))
		}
		for _, list := range answer {
			for _, p := range list {
				if p.Topic < 0 || p.Topic >= 3 {
					t.Fatalf("topic %d", p.Topic)
				}
			}
		}
	})
}
