package sinktask

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/services/connect/internal/javaregex"
	"github.com/cauce-stream/cauce/services/connect/internal/workerconfig"
)

// Config says which task it is, and how its connector and its worker are configured.
type Config struct {
	// Connector is what users call the connector, Number the task's among its tasks, from 0.
	Connector string
	Number    int
	// Properties are the connector's configuration, Task is what the connector has divided it into for this task.
	Properties, Task map[string]string
	Worker           workerconfig.Config
}

// Role says what a client of a task is for. In configurations it is the prefix of the client's properties: consumer.override.*.
type Role string

// The roles. A dead letter queue has a producer, and an admin client while its topic is being looked for.
const (
	Consumer Role = "consumer"
	Producer Role = "producer"
	Admin    Role = "admin"
)

var subscriptionDefinition = configdef.Definition{
	{Name: "topics", Type: configdef.List, Default: new(""), Importance: configdef.High, Doc: "Topics to read."},
	{Name: "topics.regex", Type: configdef.String, Default: new(""), Importance: configdef.High, Doc: "Regular expression of topics to read."},
}

// subscription is what a sink reads.
type subscription struct {
	topics  []string
	pattern *javaregex.Pattern // in place of topics
}

func newSubscription(properties map[string]string) (subscription, error) {
	v, err := subscriptionDefinition.Parse(properties)
	if err != nil {
		return subscription{}, err
	}
	s := subscription{topics: slices.DeleteFunc(v.List("topics"), func(topic string) bool { return topic == "" })}
	slices.Sort(s.topics)
	s.topics = slices.Compact(s.topics)
	expression := v.String("topics.regex")
	switch {
	case len(s.topics) > 0 && expression != "":
		return s, errors.New("topics and topics.regex are both set: one of them says what is read")
	case len(s.topics) > 0:
		return s, nil
	case expression == "":
		return s, errors.New("neither topics nor topics.regex is set: there is nothing to read")
	}
	if s.pattern, err = javaregex.Compile(expression); err != nil {
		return s, fmt.Errorf("topics.regex: %w", err)
	}
	return s, nil
}

// reads says whether a topic is one that the sink reads.
func (s *subscription) reads(topic string) bool {
	if s.pattern != nil {
		return s.pattern.Matches(topic)
	}
	return slices.Contains(s.topics, topic)
}

func (s *subscription) opts() []kgo.Opt {
	if s.pattern != nil {
		return []kgo.Opt{kgo.ConsumeTopics(s.pattern.Whole()), kgo.ConsumeRegex()}
	}
	return []kgo.Opt{kgo.ConsumeTopics(s.topics...)}
}

var consumerDefinition = configdef.Definition{
	{Name: "group.id", Type: configdef.String, Importance: configdef.High, Valid: configdef.Rule{NonEmpty: true}, Doc: "Group of the connector's tasks."},
	{Name: "max.poll.records", Type: configdef.Int, Default: new("500"), Importance: configdef.Medium, Valid: configdef.Rule{Min: new(1.0)}, Doc: "Most records in a batch."},
	{Name: "group.protocol", Type: configdef.String, Default: new("classic"), Importance: configdef.High, Valid: configdef.Rule{OneOf: []string{"classic", "consumer"}, IgnoreCase: true},
		Doc: "Protocol of the group."},
	{Name: "group.remote.assignor", Type: configdef.String, Default: new("uniform"), Importance: configdef.Medium, Valid: configdef.Rule{OneOf: []string{"uniform", "range"}, IgnoreCase: true},
		Doc: "Who assigns partitions in the protocol consumer."},
}

// consumer is what a task itself has to know of its consumer's properties.
type consumer struct {
	group string
	// maxRecords bounds a batch.
	maxRecords int
	// assignor is the broker's that assigns partitions, in the group protocol consumer; nil in the classic one.
	assignor kgo.GroupBalancer
}

// newConsumer reads the properties of the worker for consumers, and those of the connector that take their place.
func newConsumer(c Config) (consumer, error) {
	const override = "consumer.override."
	properties := c.Worker.Family(workerconfig.Consumer)
	for key, text := range c.Properties {
		if name, ok := strings.CutPrefix(key, override); ok {
			properties[name] = text
		}
	}
	v, err := consumerDefinition.Parse(properties)
	if err != nil {
		return consumer{}, fmt.Errorf("properties of the consumer: %w", err)
	}
	made := consumer{group: v.String("group.id"), maxRecords: int(v.Int("max.poll.records"))}
	if strings.EqualFold(v.String("group.protocol"), "consumer") {
		made.assignor = kgo.StickyBalancer() // this client's name for uniform
		if strings.EqualFold(v.String("group.remote.assignor"), "range") {
			made.assignor = kgo.RangeBalancer()
		}
	}
	if made.group == "" {
		made.group = "connect-" + c.Connector
	}
	return made, nil
}
