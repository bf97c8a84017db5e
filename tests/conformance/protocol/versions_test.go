//go:build conformance

package protocol

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/tests/conformance/internal/wire"
)

// produceServedFrom is the oldest Produce version that is served, although it is advertised from 0 (BL-001).
const produceServedFrom = 3

func advertised(t *testing.T, c *wire.Conn) []kmsg.ApiVersionsResponseApiKey {
	t.Helper()
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 3, "conformance", "1"
	res := do[*kmsg.ApiVersionsResponse](t, c, req)
	wantCode(t, "ApiVersions v3", res.ErrorCode, nil)
	return res.ApiKeys
}

// TestEveryAdvertisedVersionIsServed sends every advertised pair of API and version a request with nothing in it, and one
// with every field set, and wants an answer that holds exactly what its schema says (BL-015, BL-026).
func TestEveryAdvertisedVersionIsServed(t *testing.T) {
	c := dial(t)
	topic := newTopic(t, c, "versions", 1)
	apis := advertised(t, c)
	if len(apis) == 0 || apis[0].ApiKey != 0 || apis[0].MinVersion != 0 {
		t.Errorf("Produce must be advertised from version 0, got %+v", apis[:min(1, len(apis))])
	}
	for _, api := range apis {
		if kmsg.RequestForKey(api.ApiKey) == nil {
			t.Errorf("API %d is advertised and no client knows it", api.ApiKey)
			continue
		}
		t.Run(kmsg.NameForKey(api.ApiKey), func(t *testing.T) {
			for version := servedFrom(api); version <= api.MaxVersion; version++ {
				if known := kmsg.RequestForKey(api.ApiKey).MaxVersion(); version > known {
					t.Logf("v%d is advertised, the schemas here end at v%d", version, known)
					break
				}
				for _, fill := range []bool{false, true} {
					if api.ApiKey == int16(kmsg.AddPartitionsToTxn) && version >= 4 && !fill {
						continue // Kafka does not answer a batch of no transactions
					}
					checkServed(t, api.ApiKey, version, fill, topic)
				}
			}
		})
	}
}

func servedFrom(api kmsg.ApiVersionsResponseApiKey) int16 {
	if api.ApiKey == int16(kmsg.Produce) {
		return max(api.MinVersion, produceServedFrom)
	}
	return api.MinVersion
}

func checkServed(t *testing.T, key, version int16, fill bool, topic wire.Topic) {
	t.Helper()
	c, err := wire.Dial(under.Bootstrap)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	req := newRequest(key, version, fill, topic)
	id, err := c.Send(req)
	if err != nil {
		t.Fatal(err)
	}
	res, body, err := c.Receive(req, id)
	if err != nil {
		t.Errorf("filled %v: %v", fill, err)
		return
	}
	// Tagged fields that the schemas here do not know are kept, so encoding anew must give the same bytes.
	if again := res.AppendTo(nil); !bytes.Equal(again, body) {
		t.Errorf("%s, filled %v: answer\n%x\nis read as\n%x\n%+v", wire.Name(req), fill, body, again, res)
	}
}

// TestNeighbouringVersionsAreRefused sends one version above and below what is advertised, and an API that does not
// exist: like Kafka, the server closes the connection without a word.
func TestNeighbouringVersionsAreRefused(t *testing.T) {
	apis := advertised(t, dial(t))
	for _, api := range apis {
		if api.ApiKey == int16(kmsg.ApiVersions) {
			continue // it has an answer of its own
		}
		name := kmsg.NameForKey(api.ApiKey)
		t.Run(name, func(t *testing.T) {
			wantClosed(t, fmt.Sprintf("%s v%d", name, api.MaxVersion+1), api.ApiKey, api.MaxVersion+1)
			if from := servedFrom(api); from > 0 {
				wantClosed(t, fmt.Sprintf("%s v%d", name, from-1), api.ApiKey, from-1)
			}
		})
	}
	t.Run("unknown", func(t *testing.T) {
		wantClosed(t, "API 999", 999, 0)
		wantClosed(t, "API -1", -1, 0)
	})
}

func wantClosed(t *testing.T, what string, key, version int16) {
	t.Helper()
	c, err := wire.Dial(under.Bootstrap)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SendRaw(rawRequest(key, version)); err != nil {
		t.Fatal(err)
	}
	frame, err := c.ReadFrame()
	if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%s: got %x, %v; want a closed connection", what, frame, err)
	}
}

// rawRequest is a frame with a request header of this key and version, in the form that the version would have, and a
// body of the newest version known.
func rawRequest(key, version int16) []byte {
	b := make([]byte, 4, 64)
	b = binary.BigEndian.AppendUint16(b, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, 7)
	b = append(b, 0, 1, 'x')
	if req := kmsg.RequestForKey(key); req != nil {
		req.SetVersion(min(version, req.MaxVersion()))
		if req.IsFlexible() {
			b = append(b, 0)
		}
		b = req.AppendTo(b)
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// TestApiVersionsOfTheFuture: the first bytes of a connection ask for a version of ApiVersions that does not exist; the
// answer is of version 0, names the range, and the connection stays (BL-025).
func TestApiVersionsOfTheFuture(t *testing.T) {
	known := kmsg.NewPtrApiVersionsRequest().MaxVersion()
	for _, version := range []int16{known + 1, 127} {
		c := dial(t)
		if err := c.SendRaw(rawRequest(18, version)); err != nil {
			t.Fatal(err)
		}
		frame, err := c.ReadFrame()
		if err != nil {
			t.Fatalf("v%d: %v", version, err)
		}
		res := kmsg.NewPtrApiVersionsResponse()
		if err := res.ReadFrom(frame[4:]); err != nil {
			t.Fatalf("v%d: answer %x is not of version 0: %v", version, frame, err)
		}
		wantCode(t, fmt.Sprintf("v%d", version), res.ErrorCode, kerr.UnsupportedVersion)
		found := false
		for _, api := range res.ApiKeys {
			found = found || api.ApiKey == 18 && api.MinVersion == 0 && api.MaxVersion >= 4
		}
		if !found {
			t.Errorf("v%d: the answer does not name the range of ApiVersions: %+v", version, res.ApiKeys)
		}
		if len(advertised(t, c)) == 0 {
			t.Errorf("v%d: the connection is of no use afterwards", version)
		}
	}
}

// TestApiVersionsChecksTheSoftwareName (BL-025, KIP-511).
func TestApiVersionsChecksTheSoftwareName(t *testing.T) {
	for _, tc := range []struct {
		name, version string
		want          *kerr.Error
	}{
		{"franz-go", "1.0.0", nil},
		{"a", "b", nil},
		{"", "1", kerr.InvalidRequest},
		{"name", "", kerr.InvalidRequest},
		{"-name", "1", kerr.InvalidRequest},
		{"na me", "1", kerr.InvalidRequest},
		{"name", "1;drop", kerr.InvalidRequest},
		{"näme", "1", kerr.InvalidRequest},
	} {
		for version := int16(3); version <= 4; version++ {
			req := kmsg.NewPtrApiVersionsRequest()
			req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = version, tc.name, tc.version
			c := dial(t)
			res := do[*kmsg.ApiVersionsResponse](t, c, req)
			wantCode(t, fmt.Sprintf("v%d %q %q", version, tc.name, tc.version), res.ErrorCode, tc.want)
		}
	}
}
