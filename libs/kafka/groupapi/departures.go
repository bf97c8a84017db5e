package groupapi

import (
	"fmt"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// departuresTag is the tagged field of a DescribeGroups response's group that has who left the group of late, from version 5 on; it is
// Cauce's own, and clients that do not know it pass over it.
const departuresTag = 0x63617563 // "cauc"

// Departure is the end of a member of a classic group.
type Departure struct {
	// Ago is how long ago it was when the group was described, in whole milliseconds.
	Ago time.Duration
	// Member is the id that the member had, Client that of its client, Host where it was.
	Member, Client, Host string
	// Reason is what the client said, if it left, and else what the coordinator waited for in vain. Empty: it left and said nothing.
	Reason string
	// Removed is set where the coordinator took the member out, and not set where it left by itself.
	Removed bool
}

// PutDepartures adds departures to the tagged fields of a group, if there are any.
func PutDepartures(tags *kmsg.Tags, all []Departure) {
	var b []byte
	for _, d := range all {
		b = kbin.AppendInt64(b, d.Ago.Milliseconds())
		for _, text := range []string{d.Member, d.Client, d.Host, d.Reason} {
			b = kbin.AppendCompactString(b, text)
		}
		b = kbin.AppendBool(b, d.Removed)
	}
	if len(b) > 0 {
		tags.Set(departuresTag, b)
	}
}

// Departures are those among the tagged fields of a group, the oldest first; none where the coordinator does not tell, as Kafka's
// does not.
func Departures(tags *kmsg.Tags) (all []Departure, err error) {
	tags.Each(func(tag uint32, value []byte) {
		if tag != departuresTag {
			return
		}
		for b := (kbin.Reader{Src: value}); len(b.Src) > 0; {
			ago := b.Int64()
			d := Departure{
				Ago:    time.Duration(ago) * time.Millisecond,
				Member: b.CompactString(), Client: b.CompactString(), Host: b.CompactString(), Reason: b.CompactString(),
				Removed: b.Bool(),
			}
			bad := b.Complete()
			if bad == nil && (ago < 0 || ago > math.MaxInt64/int64(time.Millisecond)) {
				bad = fmt.Errorf("one left %d ms ago", ago)
			}
			if bad != nil {
				all, err = nil, fmt.Errorf("members that left a group, in %d bytes: %w", len(value), bad)
				return
			}
			all = append(all, d)
		}
	})
	return all, err
}
