package plugin

import "context"

// Assignor distributes the partitions that a consumer group subscribes to over the group's members (KIP-848). An answer
// must give each partition of a subscribed topic to exactly one member that subscribes to the topic; Cauce checks that and
// keeps the group's last assignment when it is not so. The same request should get the same answer.
type Assignor interface {
	Plugin
	// Assign must return soon after ctx has ended. It must not change the request. An error is logged with its text, and
	// the group keeps its last assignment.
	Assign(ctx context.Context, r *Request) (Response, error)
}

// Request is one question to an assignor. Topics and members are named by their place in it.
type Request struct {
	Group string
	// Epoch is the group epoch that the answer is for.
	Epoch int32
	// Topics are in order of id. Each is subscribed to by some member or is in some member's target.
	Topics []Topic
	// Members are in order of id.
	Members []Member
}

// Topic is a topic with its partitions, which are numbered from 0.
type Topic struct {
	ID         [16]byte
	Name       string
	Partitions int32
	// Racks has, for each partition, the racks that hold a replica; nil when racks are not known.
	Racks [][]string
	// Lag has, for each partition, how many records the group is behind its end, or -1 for unknown; nil when it was not
	// measured (Info.WantsLag).
	Lag []int64
}

// Member is a member of the group.
type Member struct {
	ID string
	// InstanceID is empty for a dynamic member (KIP-345).
	InstanceID string
	// Rack is empty when the member names none.
	Rack string
	// Topics are those that the member subscribes to, as places in Request.Topics in ascending order. Members with the
	// same subscription may share the slice.
	Topics []int
	// Target is what the member was given last, topics that it no longer subscribes to included.
	Target []TopicPartitions
}

// TopicPartitions are partitions of one topic.
type TopicPartitions struct {
	Topic      int // its place in Request.Topics
	Partitions []int32
}

// Response has, for each member of the request and in the same order, what it gets. It may be shorter than the list of
// members: those beyond its end get nothing.
type Response [][]TopicPartitions
