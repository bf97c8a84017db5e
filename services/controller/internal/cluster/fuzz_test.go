package cluster

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// FuzzHandle decides requests that no sane client sends: the first byte picks
// the API, the second the version, the rest is the body. Whatever can be decoded
// must be answered encodably and keep the invariants.
func FuzzHandle(f *testing.F) {
	keys := []int16{19, 20, 33, 37, 44, 55, 57, 64}
	for i, key := range keys {
		req := kmsg.RequestForKey(key)
		req.SetVersion(req.MaxVersion())
		f.Add(append([]byte{byte(i), byte(req.MaxVersion())}, req.AppendTo(nil)...))
	}
	two := newTopicRequest("a.b", 2)
	two.Topics = append(two.Topics, newTopicRequest("t", -1).Topics[0])
	f.Add(append([]byte{0, 7}, two.AppendTo(nil)...))
	grow := kmsg.NewPtrCreatePartitionsRequest()
	grow.Version = 3
	grow.Topics = append(grow.Topics, kmsg.CreatePartitionsRequestTopic{Topic: "there", Count: 5})
	f.Add(append([]byte{3, 3}, grow.AppendTo(nil)...))

	base := oneBroker(f)
	base.handle(newTopicRequest("there", 2))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < 2 {
			return
		}
		req := kmsg.RequestForKey(keys[int(data[0])%len(keys)])
		req.SetVersion(int16(data[1]) % (req.MaxVersion() + 1))
		if req.ReadFrom(data[2:]) != nil {
			return
		}
		h := *base
		h.t = t
		resp := h.handle(req)
		if resp == nil || resp.GetVersion() != req.GetVersion() {
			t.Fatalf("%T at version %d is answered by %T", req, req.GetVersion(), resp)
		}
		back := req.ResponseKind()
		if err := back.ReadFrom(resp.AppendTo(nil)); err != nil {
			t.Fatal(err)
		}
	})
}
