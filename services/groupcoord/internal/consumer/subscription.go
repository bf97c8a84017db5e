package consumer

import (
	"encoding/binary"
	"hash/fnv"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/schema"
)

// searchInterval is the least time between two looks at all topics of the cluster for one group, however often the image
// changes.
const searchInterval = time.Second

// search is what a group remembers of its looks at the names of all topics.
type search struct {
	// compiled are the expressions that members subscribe to; nil for one that cannot be read.
	compiled map[string]*regexp.Regexp
	at       time.Time
	offset   int64 // of the image
}

// digest is the metadata hash of an image; offset is -1 when it has to be computed anew.
type digest struct {
	offset int64
	hash   int64
}

// compile reads an expression in the syntax of RE2, which has to match a topic's whole name.
func compile(expression string) (*regexp.Regexp, error) {
	// Alone first: within the anchors something else might become of it.
	if _, err := regexp.Compile(expression); err != nil {
		return nil, refuse(kerr.InvalidRegularExpression, "SubscribedTopicRegex %q is not a valid regular expression: %v", expression, err)
	}
	r, err := regexp.Compile(`\A(?:` + expression + `)\z`)
	if err != nil {
		return nil, refuse(kerr.InvalidRegularExpression, "SubscribedTopicRegex %q is not a valid regular expression: %v", expression, err)
	}
	return r, nil
}

// refresh bumps the group epoch when what the group subscribes to has changed, or when it is told to.
func (g *Group) refresh(o *op.Op, bump bool) {
	changed := g.resolve(o)
	hash := g.metadataHash(o.Image)
	if !bump && !changed && hash == g.epoch.MetadataHash {
		return
	}
	o.Emit(&schema.ConsumerGroupMetadata{Group: g.id, Value: &schema.GroupEpoch{Epoch: max(g.epoch.Epoch, emptyEpoch) + 1, MetadataHash: hash}})
	if g.oldMetadata {
		o.Emit(&schema.ConsumerGroupPartitionMetadata{Group: g.id})
	}
}

// resolve forgets expressions that nobody subscribes to, and looks for the topics of the others where that is due. It says
// whether some expression has got other topics.
func (g *Group) resolve(o *op.Op) bool {
	for _, e := range slices.Sorted(maps.Keys(g.expressions)) {
		if g.patterns[e] == 0 {
			o.Emit(&schema.ConsumerGroupRegularExpression{Group: g.id, Expression: e})
		}
	}
	if len(g.patterns) == 0 {
		g.search = search{}
		o.ClearTimer(g.timer(timerExpressions, ""))
		return false
	}
	s := &g.search
	interval := o.Settings.Broker.DurationMs("group.consumer.regex.refresh.interval.ms")
	due := s.at.Add(interval)
	if s.offset != o.Image.Offset() {
		due = s.at.Add(searchInterval)
	}
	all := !due.After(o.Now)
	if all {
		s.at, s.offset = o.Now, o.Image.Offset()
		due = o.Now.Add(interval)
	}
	o.SetTimer(g.timer(timerExpressions, ""), due)
	changed := false
	for _, e := range slices.Sorted(maps.Keys(g.patterns)) {
		before := g.expressions[e]
		if before != nil && !all {
			continue
		}
		topics := g.matches(o.Image, e)
		if before == nil || !slices.Equal(before.Topics, topics) {
			changed = true
			o.Emit(&schema.ConsumerGroupRegularExpression{Group: g.id, Expression: e,
				Value: &schema.ResolvedExpression{Topics: topics, Version: o.Image.Offset(), TimestampMs: o.Now.UnixMilli()}})
		}
	}
	return changed
}

// matches are the names of the topics that match, in order. Internal topics are among them, as they are on Kafka: clients that
// do not want them leave them out.
func (g *Group) matches(im *metadata.Image, expression string) []string {
	r, ok := g.search.compiled[expression]
	if !ok {
		if g.search.compiled == nil {
			g.search.compiled = map[string]*regexp.Regexp{}
		}
		// An expression that another implementation accepted may not be one here; it matches nothing then.
		r, _ = compile(expression)
		g.search.compiled[expression] = r
	}
	if r == nil {
		return nil
	}
	var topics []string
	for t := range im.Topics() {
		if r.MatchString(t.Name) {
			topics = append(topics, t.Name)
		}
	}
	return topics
}

// subscribedTopics are the topics that exist and that some member subscribes to, in order of name.
func (g *Group) subscribedTopics(im *metadata.Image) []*metadata.Topic {
	names := maps.Clone(g.topics)
	for e := range g.patterns {
		if r := g.expressions[e]; r != nil {
			for _, name := range r.Topics {
				names[name]++
			}
		}
	}
	topics := make([]*metadata.Topic, 0, len(names))
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if t, ok := im.Topic(name); ok {
			topics = append(topics, t)
		}
	}
	return topics
}

// metadataHash is a digest of all that an assignor is told of the topics.
func (g *Group) metadataHash(im *metadata.Image) int64 {
	if g.digest.offset == im.Offset() {
		return g.digest.hash
	}
	topics := g.subscribedTopics(im)
	g.digest = digest{offset: im.Offset()}
	if len(topics) == 0 {
		return 0
	}
	h := fnv.New64a()
	var number [4]byte
	write := func(s string) {
		binary.BigEndian.PutUint32(number[:], uint32(len(s)))
		h.Write(number[:])
		h.Write([]byte(s))
	}
	for _, t := range topics {
		write(t.Name)
		write(string(t.ID[:]))
		binary.BigEndian.PutUint32(number[:], uint32(len(t.Partitions)))
		h.Write(number[:])
		for _, racks := range racksOf(im, t) {
			write(strings.Join(racks, "\x00"))
		}
	}
	g.digest.hash = int64(h.Sum64())
	return g.digest.hash
}

// racksOf are the racks of each partition's replicas in order of name; nil where no replica has a rack.
func racksOf(im *metadata.Image, t *metadata.Topic) [][]string {
	racks := make([][]string, len(t.Partitions))
	known := false
	for i, p := range t.Partitions {
		for _, replica := range p.Replicas {
			if n, ok := im.Node(replica); ok && n.Rack != "" && !slices.Contains(racks[i], n.Rack) {
				racks[i] = append(racks[i], n.Rack)
				known = true
			}
		}
		slices.Sort(racks[i])
	}
	if !known {
		return nil
	}
	return racks
}

// subscribes says whether a member subscribes to a topic that exists.
func (g *Group) subscribes(im *metadata.Image, said *schema.MemberMetadata, id metadata.TopicID) bool {
	t, ok := im.TopicByID(id)
	if !ok {
		return false
	}
	if _, found := slices.BinarySearch(said.Topics, t.Name); found {
		return true
	}
	if r := g.expressions[said.Expression]; said.Expression != "" && r != nil {
		_, found := slices.BinarySearch(r.Topics, t.Name)
		return found
	}
	return false
}
