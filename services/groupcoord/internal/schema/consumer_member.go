package schema

import (
	"github.com/twmb/franz-go/pkg/kbin"
)

// ConsumerGroupMemberMetadata is what a member has said of itself; without Value it is no member any more.
type ConsumerGroupMemberMetadata struct {
	Group, Member string
	Value         *MemberMetadata
}

// MemberMetadata is what a member has said of itself. Strings are empty for null.
type MemberMetadata struct {
	InstanceID, RackID   string
	ClientID, ClientHost string
	// Topics are those subscribed to by name, in ascending order.
	Topics []string
	// Expression is the regular expression (RE2) subscribed to.
	Expression string
	// RebalanceTimeoutMs is how long the member may take to revoke partitions, in milliseconds; -1 when it did not say.
	RebalanceTimeoutMs int32
	// Assignor is the server-side assignor that the member wants.
	Assignor string
	// Classic is of a member that uses the classic protocol; nil otherwise.
	Classic *ClassicMemberMetadata
}

// ClassicMemberMetadata is what only members have that use the classic protocol.
type ClassicMemberMetadata struct {
	SessionTimeoutMs int32
	// Protocols are in the member's order of preference.
	Protocols []ClassicProtocol
}

// ClassicProtocol is an assignment protocol of a member with its subscription.
type ClassicProtocol struct {
	Name     string
	Metadata []byte
}

func (r *ConsumerGroupMemberMetadata) appendKey(b []byte) []byte {
	return appendGroupKey(b, consumerGroupMemberMetadataType, r.Group, r.Member)
}

func (r *ConsumerGroupMemberMetadata) appendValue(b []byte) ([]byte, bool) {
	v := r.Value
	if v == nil {
		return b, false
	}
	b = kbin.AppendInt16(b, consumerGroupValueVersion)
	b = appendOptional(b, v.InstanceID)
	b = appendOptional(b, v.RackID)
	b = kbin.AppendCompactString(b, v.ClientID)
	b = kbin.AppendCompactString(b, v.ClientHost)
	b = appendStrings(b, v.Topics)
	b = appendOptional(b, v.Expression)
	b = kbin.AppendInt32(b, v.RebalanceTimeoutMs)
	b = appendOptional(b, v.Assignor)
	return appendTag(b, v.Classic.field()), true
}

// field is the structure as a tagged field, nil when there is none. A nullable structure starts with a byte that says
// whether it is there.
func (c *ClassicMemberMetadata) field() []byte {
	if c == nil {
		return nil
	}
	b := kbin.AppendInt8(nil, 1)
	b = kbin.AppendInt32(b, c.SessionTimeoutMs)
	b = kbin.AppendCompactArrayLen(b, len(c.Protocols))
	for _, p := range c.Protocols {
		b = kbin.AppendCompactString(b, p.Name)
		b = kbin.AppendCompactBytes(b, p.Metadata)
		b = appendTag(b, nil)
	}
	return appendTag(b, nil)
}

func decodeClassicMember(field []byte) (*ClassicMemberMetadata, error) {
	if field == nil {
		return nil, nil
	}
	in := &kbin.Reader{Src: field}
	if in.Int8() < 0 {
		return nil, complete(in)
	}
	c := &ClassicMemberMetadata{SessionTimeoutMs: in.Int32()}
	for n := in.CompactArrayLen(); n > 0 && in.Ok(); n-- {
		p := ClassicProtocol{Name: in.CompactString()}
		p.Metadata = append([]byte{}, in.CompactBytes()...)
		readTag(in)
		c.Protocols = append(c.Protocols, p)
	}
	readTag(in)
	return c, complete(in)
}

func decodeConsumerGroupMemberMetadata(key, value []byte) (Record, error) {
	r := &ConsumerGroupMemberMetadata{}
	if err := readGroupKey(key, &r.Group, &r.Member); err != nil || value == nil {
		return r, err
	}
	in, err := valueReader(value)
	if err != nil {
		return nil, err
	}
	v := &MemberMetadata{
		InstanceID:         readOptional(in),
		RackID:             readOptional(in),
		ClientID:           in.CompactString(),
		ClientHost:         in.CompactString(),
		Topics:             readStrings(in),
		Expression:         readOptional(in),
		RebalanceTimeoutMs: in.Int32(),
		Assignor:           readOptional(in),
	}
	classic := readTag(in)
	if err := complete(in); err != nil {
		return nil, err
	}
	if v.Classic, err = decodeClassicMember(classic); err != nil {
		return nil, err
	}
	r.Value = v
	return r, nil
}
