package client

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fake is one accepted connection of a server that a test plays by hand.
type fake struct {
	t  *testing.T
	nc net.Conn
	in *bufio.Reader
}

// received is a request as it came off the wire.
type received struct {
	kmsg.Request
	correlationID int32
	clientID      string
	tags          kmsg.Tags
}

// receive reads one request. It fails with io.EOF at the connection's end.
func (f *fake) receive() (received, error) {
	var head [4]byte
	if _, err := io.ReadFull(f.in, head[:]); err != nil {
		return received{}, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(f.in, frame); err != nil {
		return received{}, err
	}
	r := kbin.Reader{Src: frame}
	req := kmsg.RequestForKey(r.Int16())
	req.SetVersion(r.Int16())
	got := received{Request: req, correlationID: r.Int32()}
	if id := r.NullableString(); id != nil {
		got.clientID = *id
	}
	if req.IsFlexible() {
		got.tags = kmsg.ReadTags(&r)
	}
	if !r.Ok() {
		return got, errors.New("request header is cut short")
	}
	return got, req.ReadFrom(r.Src)
}

func (f *fake) mustReceive() received {
	f.t.Helper()
	req, err := f.receive()
	if err != nil {
		f.t.Errorf("fake: %v", err)
	}
	return req
}

// reply answers a request. Headers of flexible answers hold a tagged field, which clients have to skip.
func (f *fake) reply(to received, resp kmsg.Response) {
	resp.SetVersion(to.GetVersion())
	body := binary.BigEndian.AppendUint32(nil, uint32(to.correlationID))
	if resp.IsFlexible() && resp.Key() != int16(kmsg.ApiVersions) {
		body = append(body, 1, 99, 3, 'a', 'b', 'c')
	}
	f.send(resp.AppendTo(body))
}

func (f *fake) send(body []byte) {
	frame := append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
	if _, err := f.nc.Write(frame); err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.ErrClosedPipe) {
		f.t.Errorf("fake: %v", err)
	}
}

// offer is what a fake says it knows: Metadata to version 9, Heartbeat to 3 (not flexible), Produce from 3 to 8.
var offer = []kmsg.ApiVersionsResponseApiKey{
	{ApiKey: int16(kmsg.ApiVersions), MaxVersion: 3},
	{ApiKey: int16(kmsg.Metadata), MaxVersion: 9},
	{ApiKey: int16(kmsg.Heartbeat), MaxVersion: 3},
	{ApiKey: int16(kmsg.Produce), MinVersion: 3, MaxVersion: 8},
	{ApiKey: int16(kmsg.Fetch), MinVersion: 100, MaxVersion: 101},
}

func (f *fake) negotiate() {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.ApiKeys = offer
	f.reply(f.mustReceive(), resp)
}

// network is a pool whose dials are connections to fakes, which come out of accepted.
type network struct {
	*Pool
	accepted chan *fake
	dials    chan struct{} // one for each
}

// newNetwork plays the network in memory, where testing/synctest has the time.
func newNetwork(t *testing.T, config Config) *network {
	n := &network{accepted: make(chan *fake, 100), dials: make(chan struct{}, 100)}
	config.Dial = func(context.Context, string) (net.Conn, error) {
		n.dials <- struct{}{}
		ours, theirs := net.Pipe()
		n.accepted <- &fake{t: t, nc: theirs, in: bufio.NewReader(theirs)}
		return ours, nil
	}
	n.Pool = New(config)
	t.Cleanup(n.Close)
	return n
}

// accept waits for a connection and agrees on versions with it.
func (n *network) accept() *fake {
	f := <-n.accepted
	f.negotiate()
	return f
}

// result is what one request came to.
type result struct {
	resp kmsg.Response
	err  error
}

// start sends a request in the background.
func (n *network) start(ctx context.Context, req kmsg.Request) <-chan result {
	done := make(chan result, 1)
	go func() {
		resp, err := n.Do(ctx, "node:9092", req)
		done <- result{resp, err}
	}()
	return done
}

// metadataFor is a request that can be told from others by its topic, and answers by their cluster id.
func metadataFor(topic string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(topic)
	req.Topics = append(req.Topics, t)
	return req
}

func topicOf(r received) string { return *r.Request.(*kmsg.MetadataRequest).Topics[0].Topic }

func (f *fake) answerMetadata(to received) {
	resp := kmsg.NewPtrMetadataResponse()
	resp.ClusterID = kmsg.StringPtr("about " + topicOf(to))
	f.reply(to, resp)
}

func wantAnswer(t *testing.T, r result, topic string) {
	t.Helper()
	if r.err != nil {
		t.Errorf("%s: %v", topic, r.err)
	} else if got := *r.resp.(*kmsg.MetadataResponse).ClusterID; got != "about "+topic {
		t.Errorf("%s was answered with %q", topic, got)
	}
}

func wantError(t *testing.T, r result, want error) {
	t.Helper()
	if !errors.Is(r.err, want) {
		t.Errorf("error is %v, want %v", r.err, want)
	}
}

// refuseFlexible answers a version that the fake does not know as Kafka does (KIP-511).
func (f *fake) refuseFlexible(to received) {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.ErrorCode = kerr.UnsupportedVersion.Code
	body := binary.BigEndian.AppendUint32(nil, uint32(to.correlationID))
	f.send(resp.AppendTo(body))
}
