package server

import (
	"io"
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// answerBytes is an encoded Produce answer's body, about as long as one of one partition.
var answerBytes = make([]byte, 60)

func echoProduce() API {
	return API{Key: 0, MinVersion: 3, MaxVersion: 9, Inline: true, Handle: func(r *Request) {
		r.Finish(append(r.Begin(), answerBytes...), nil, nil)
	}}
}

// produceRequest is a Produce frame with one batch of the given size.
func produceRequest(size int) []byte {
	m := kmsg.NewPtrProduceRequest()
	topic, partition := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	partition.Records = make([]byte, size)
	topic.Topic, topic.Partitions = "topic", append(topic.Partitions, partition)
	m.Topics = append(m.Topics, topic)
	return request(m, 9, 1)
}

const answerFrameBytes = 9 + 60

// roundTrips sends frames in groups of depth and reads all their answers.
func roundTrips(tb testing.TB, nc net.Conn, frame []byte, depth int) func() {
	group := make([]byte, 0, depth*len(frame))
	for range depth {
		group = append(group, frame...)
	}
	answers := make([]byte, depth*answerFrameBytes)
	return func() {
		if _, err := nc.Write(group); err != nil {
			tb.Fatal(err)
		}
		if _, err := io.ReadFull(nc, answers); err != nil {
			tb.Fatal(err)
		}
	}
}

// echoFloor answers groups of frames of known size without looking at them.
func echoFloor(tb testing.TB, frameBytes, depth int) net.Conn {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	go func() {
		defer ln.Close()
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		in, out := make([]byte, depth*frameBytes), make([]byte, depth*answerFrameBytes)
		for {
			if _, err := io.ReadFull(nc, in); err != nil {
				return
			}
			if _, err := nc.Write(out); err != nil {
				return
			}
		}
	}()
	nc, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { nc.Close() })
	return nc
}

// BenchmarkEcho is frame, header and answer over loopback; floor is the same bytes through bare sockets.
func BenchmarkEcho(b *testing.B) {
	for _, bm := range []struct {
		name         string
		bytes, depth int
	}{{"1KiB", 1 << 10, 1}, {"1KiB-pipelined-16", 1 << 10, 16}, {"64KiB", 64 << 10, 1}} {
		frame := produceRequest(bm.bytes)
		b.Run(bm.name+"/server", func(b *testing.B) {
			r := start(b, Config{}, Deps{}, echoProduce())
			trip := roundTrips(b, r.dial(), frame, bm.depth)
			b.SetBytes(int64(bm.depth * len(frame)))
			b.ReportAllocs()
			for b.Loop() {
				trip()
			}
		})
		b.Run(bm.name+"/floor", func(b *testing.B) {
			trip := roundTrips(b, echoFloor(b, len(frame), bm.depth), frame, bm.depth)
			b.SetBytes(int64(bm.depth * len(frame)))
			b.ReportAllocs()
			for b.Loop() {
				trip()
			}
		})
	}
}

// BenchmarkDecode is what kmsg adds for a Produce of one partition.
func BenchmarkDecode(b *testing.B) {
	frame := produceRequest(1 << 10)
	h, err := parseHeader(frame[4:], everyAPI())
	if err != nil {
		b.Fatal(err)
	}
	r := &Request{Version: 9, route: h.route, Body: frame[4+h.size:]}
	b.ReportAllocs()
	for b.Loop() {
		var m kmsg.ProduceRequest
		if err := r.Decode(&m); err != nil {
			b.Fatal(err)
		}
	}
}

// The server itself allocates one object per request, its Request.
func TestAllocationsPerRequest(t *testing.T) {
	if testing.CoverMode() != "" {
		t.Skip("coverage allocates")
	}
	r := start(t, Config{}, Deps{}, echoProduce())
	for _, depth := range []int{1, 16} {
		trip := roundTrips(t, r.dial(), produceRequest(1<<10), depth)
		trip()
		if got := testing.AllocsPerRun(200, trip) / float64(depth); got > 1.1 {
			t.Errorf("%.2f allocations per request, %d at a time", got, depth)
		}
	}
}
