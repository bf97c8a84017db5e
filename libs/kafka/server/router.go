package server

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// apiVersionsKey is the one API whose response header never has tags and whose unknown versions are answered.
const apiVersionsKey = 18

// maxAPIKey bounds the keys a router accepts. Kafka's highest client API key is 93.
const maxAPIKey = 255

// Handler serves one request. It ends the request by exactly one call of Reply, Finish, ReplyNothing or
// Fail, from any goroutine, before or after it returns.
type Handler func(r *Request)

// API is one registered Kafka API.
type API struct {
	Key        int16
	MinVersion int16 // oldest version served
	MaxVersion int16 // newest version served
	Handle     Handler

	// Inline handlers run on the goroutine that reads the connection: they must not block. The others run
	// on a goroutine of their own, one after the other in the order they arrived on the connection, so that
	// inline requests behind them already run.
	Inline bool

	// Checksums has CRC-32Cs taken of large bodies as they arrive, so that Request.Checksum is cheap.
	Checksums bool

	// Shared is for those who answer parts of the API together, see Router.Shared.
	Shared any

	// MaxBodyBytes bounds a request's size below the server's MaxRequestBytes; 0 takes 16 MiB, or no such
	// bound for the APIs that carry payloads of the application.
	MaxBodyBytes int
}

// Router maps API keys to handlers. Registration ends before the first server runs.
type Router struct {
	apis [maxAPIKey + 1]*route
}

// route is an API with what is derived from it once.
type route struct {
	API
	name           string // as Kafka spells it, for metrics and logs
	spanName       string
	flexibleFrom   int16 // first version with tagged fields
	advertisedFrom int16
	advertisedTo   int16
	fallback       *route // ApiVersions: answers unsupported versions
}

// unknownRoute stands for API keys that nobody registered.
var unknownRoute = &route{API: API{Key: -1, Inline: true}, name: "unknown API"}

// NewRouter returns a router without APIs.
func NewRouter() *Router { return &Router{} }

// Register adds APIs. It panics on a duplicate key, a key unknown to kmsg or an empty version range, which
// are faults of the program.
func (rt *Router) Register(apis ...API) {
	for _, a := range apis {
		msg := kmsg.RequestForKey(a.Key)
		if msg == nil || a.Key > maxAPIKey || a.Handle == nil || a.MinVersion < 0 || a.MinVersion > a.MaxVersion || a.MaxVersion > msg.MaxVersion() {
			panic(fmt.Sprintf("server: API key %d versions %d-%d cannot be registered", a.Key, a.MinVersion, a.MaxVersion))
		}
		if rt.apis[a.Key] != nil {
			panic(fmt.Sprintf("server: API key %d is registered twice", a.Key))
		}
		rt.apis[a.Key] = &route{
			API:            a,
			name:           kmsg.NameForKey(a.Key),
			spanName:       "kafka." + kmsg.NameForKey(a.Key),
			flexibleFrom:   flexibleFrom(msg),
			advertisedFrom: a.MinVersion,
			advertisedTo:   a.MaxVersion,
		}
		if a.Key == apiVersionsKey {
			rt.apis[a.Key].fallback = unsupportedApiVersions(rt.apis[a.Key])
		}
	}
}

// Shared is what the API of a registered key was registered with as Shared; nil for a key that is not registered.
func (rt *Router) Shared(key int16) any {
	if r := rt.lookup(key); r != nil {
		return r.API.Shared
	}
	return nil
}

// Advertise replaces the version range that Versions lists for a registered key, without changing what is
// served. Kafka lists Produce from 0 although it serves it from 3, because librdkafka reads codec support
// off that list (KAFKA-18659).
func (rt *Router) Advertise(key, minVersion, maxVersion int16) {
	r := rt.lookup(key)
	if r == nil {
		panic(fmt.Sprintf("server: API key %d is not registered", key))
	}
	r.advertisedFrom, r.advertisedTo = minVersion, maxVersion
}

// Versions lists the advertised version ranges by key, for the ApiVersions response.
func (rt *Router) Versions() []kmsg.ApiVersionsResponseApiKey {
	var list []kmsg.ApiVersionsResponseApiKey
	for _, r := range rt.apis {
		if r == nil {
			continue
		}
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MinVersion, k.MaxVersion = r.Key, r.advertisedFrom, r.advertisedTo
		list = append(list, k)
	}
	slices.SortFunc(list, func(a, b kmsg.ApiVersionsResponseApiKey) int { return cmp.Compare(a.ApiKey, b.ApiKey) })
	return list
}

// lookup returns the route of a key, or nil.
func (rt *Router) lookup(key int16) *route {
	if key < 0 || key > maxAPIKey {
		return nil
	}
	return rt.apis[key]
}

// flexibleFrom finds the first version of a message with tagged fields (KIP-482).
func flexibleFrom(msg kmsg.Request) int16 {
	for v := range msg.MaxVersion() + 1 {
		msg.SetVersion(v)
		if msg.IsFlexible() {
			return v
		}
	}
	return msg.MaxVersion() + 1
}

// unsupportedApiVersions is the route of ApiVersions requests of an unknown version: the answer has version 0,
// UNSUPPORTED_VERSION and the range of ApiVersions itself, from which the client chooses anew (KIP-511).
func unsupportedApiVersions(known *route) *route {
	answer := func(r *Request) {
		b := binary.BigEndian.AppendUint16(r.Begin(), uint16(kerr.UnsupportedVersion.Code))
		b = binary.BigEndian.AppendUint32(b, 1)
		b = binary.BigEndian.AppendUint16(b, apiVersionsKey)
		b = binary.BigEndian.AppendUint16(b, uint16(known.advertisedFrom))
		b = binary.BigEndian.AppendUint16(b, uint16(known.advertisedTo))
		r.Finish(b, nil, nil)
	}
	return &route{
		API:          API{Key: apiVersionsKey, Handle: answer, Inline: true, MaxBodyBytes: known.MaxBodyBytes},
		name:         known.name,
		spanName:     known.spanName,
		flexibleFrom: known.flexibleFrom,
	}
}

// plainMaxBodyBytes bounds requests that carry no payload of the application. Decoded, a request may take
// tens of times its size (see decode), so what has no reason to be large may not be.
const plainMaxBodyBytes = 16 << 20

// maxBodyBytes bounds a frame by its API, below the server's own bound.
func (r *route) maxBodyBytes() int {
	if r.MaxBodyBytes > 0 {
		return r.MaxBodyBytes
	}
	switch kmsg.Key(r.Key) {
	case kmsg.Produce, kmsg.JoinGroup, kmsg.SyncGroup, kmsg.PushTelemetry:
		return math.MaxInt32
	}
	return plainMaxBodyBytes
}
