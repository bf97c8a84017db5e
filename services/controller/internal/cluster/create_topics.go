package cluster

import (
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
	"github.com/cauce-stream/cauce/libs/security"
)

// createTopics decides CreateTopics, key 19, versions 2 to 7: validate_only
// (KIP-4), -1 for the defaults (KIP-464), configs in the answer (KIP-525), topic
// ids in the answer (KIP-516). Each topic succeeds or fails by itself.
//
// Unlike Kafka's, clients cannot create the coordinators' topics: nodes do when
// they need them, with the configs that they need.
func createTopics(im *metadata.Image, env Env, req *kmsg.CreateTopicsRequest, principal security.Principal) Outcome {
	c := &topicCreator{im: im, env: env, layers: layers(im, env), names: map[string]string{}}
	resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
	var last []kmsg.CreateTopicsResponseTopic
	counts := map[string]int{}
	for _, t := range req.Topics {
		counts[t.Topic]++
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		switch n := counts[t.Topic]; {
		case n < 0: // answered as a duplicate
		case n > 1:
			counts[t.Topic] = -1
			last = append(last, failedTopic(t.Topic, refuse(kerr.InvalidRequest, "Duplicate topic name.")))
		case t.Topic == clusterMetadataTopic:
			last = append(last, failedTopic(t.Topic,
				refuse(kerr.InvalidRequest, "Creation of internal topic %s is prohibited.", clusterMetadataTopic)))
		case metadata.InternalTopic(t.Topic) && !principal.IsNode():
			resp.Topics = append(resp.Topics, failedTopic(t.Topic,
				refuse(kerr.InvalidTopicException, "Creation of internal topic %s is prohibited.", t.Topic)))
		default:
			resp.Topics = append(resp.Topics, c.create(t))
		}
	}
	resp.Topics = append(resp.Topics, last...)
	if req.ValidateOnly {
		return Outcome{Response: resp}
	}
	return Outcome{Response: resp, Records: c.records}
}

func failedTopic(name string, err error) kmsg.CreateTopicsResponseTopic {
	t := kmsg.NewCreateTopicsResponseTopic()
	t.Topic = name
	t.Configs = []kmsg.CreateTopicsResponseTopicConfig{} // null would mean that they may not be seen
	t.ErrorCode, t.ErrorMessage = answer(err)
	return t
}

type topicCreator struct {
	im      *metadata.Image
	env     Env
	layers  configkeys.Layers
	records []*metadatapb.Record
	// names has the topics of this request by sameMetricName.
	names map[string]string
	// defaults are the configs of a topic without overrides, once needed.
	defaults []configkeys.Entry
}

func (c *topicCreator) create(t *kmsg.CreateTopicsRequestTopic) kmsg.CreateTopicsResponseTopic {
	partitions, configs, err := c.decide(t)
	if err != nil {
		return failedTopic(t.Topic, err)
	}
	id := metadata.TopicID(NewID(c.env.Rand))
	c.names[sameMetricName(t.Topic)] = t.Topic
	c.records = append(c.records, topicRecord(t.Topic, id))
	for _, key := range slices.Sorted(maps.Keys(configs)) {
		value := configs[key]
		c.records = append(c.records, configRecord(topicResource(t.Topic), key, &value))
	}
	for i, p := range partitions {
		c.records = append(c.records, newPartitionRecord(id, int32(i), p.replicas, p.isr))
	}

	res := kmsg.NewCreateTopicsResponseTopic()
	res.Topic, res.TopicID = t.Topic, id
	res.NumPartitions = int32(len(partitions))
	res.ReplicationFactor = int16(len(partitions[0].replicas))
	res.Configs = c.describe(configs)
	return res
}

// newPartition is what a partition starts with.
type newPartition struct{ replicas, isr []int32 }

func (c *topicCreator) decide(t *kmsg.CreateTopicsRequestTopic) ([]newPartition, map[string]string, error) {
	if err := c.checkName(t.Topic); err != nil {
		return nil, nil, err
	}
	configs, err := creationConfigs(t)
	if err != nil {
		return nil, nil, err
	}
	if err := configkeys.ValidateTopic(configs); err != nil {
		return nil, nil, err
	}
	partitions, err := c.partitions(t)
	return partitions, configs, err
}

func (c *topicCreator) checkName(name string) error {
	if err := checkTopicName(name); err != nil {
		return err
	}
	if _, ok := c.im.Topic(name); ok {
		return refuse(kerr.TopicAlreadyExists, "Topic '%s' already exists.", name)
	}
	other, collides := c.names[sameMetricName(name)]
	if t, ok := c.im.CollidingTopic(name); ok {
		other, collides = t.Name, true
	}
	if collides {
		return refuse(kerr.InvalidTopicException, "Topic '%s' collides with existing topic: %s", name, other)
	}
	return nil
}

// creationConfigs are the overrides that a topic is created with. As in Kafka
// the last of several values of a key counts here.
func creationConfigs(t *kmsg.CreateTopicsRequestTopic) (map[string]string, error) {
	configs := make(map[string]string, len(t.Configs))
	var nulls []string
	for _, c := range t.Configs {
		if c.Value == nil {
			nulls = append(nulls, c.Name)
			continue
		}
		configs[c.Name] = tidy(metadata.TopicConfig, c.Name, *c.Value)
	}
	if nulls != nil {
		return nil, refuse(kerr.InvalidConfig, "Null value not supported for topic configs: %s", joinedList(nulls))
	}
	return configs, nil
}

func (c *topicCreator) partitions(t *kmsg.CreateTopicsRequestTopic) ([]newPartition, error) {
	if len(t.ReplicaAssignment) > 0 {
		return c.assigned(t)
	}
	count, factor := int(t.NumPartitions), int(t.ReplicationFactor)
	switch {
	case factor < -1 || factor == 0:
		return nil, refuse(kerr.InvalidReplicationFactor,
			"Replication factor must be larger than 0, or -1 to use the default value.")
	case count < -1 || count == 0:
		return nil, refuse(kerr.InvalidPartitions,
			"Number of partitions was set to an invalid non-positive value.")
	}
	if count == -1 {
		count = c.env.Static.Int("num.partitions")
	}
	if factor == -1 {
		factor = c.env.Static.Int("default.replication.factor")
	}
	return placeNew(c.im, c.env, count, factor, len(c.records))
}

// placeNew chooses the replicas of count new partitions. records is the number
// of records that the request makes already.
func placeNew(im *metadata.Image, env Env, count, factor, records int) ([]newPartition, error) {
	p := newPlacer(im, env.Rand)
	if err := p.check(factor); err != nil {
		return nil, err
	}
	if err := checkRecordLimit(records + count); err != nil {
		return nil, err
	}
	partitions := make([]newPartition, count)
	for i := range partitions {
		replicas := p.place(factor)
		partitions[i] = newPartition{replicas, activeReplicas(im, replicas)}
	}
	return partitions, nil
}

func checkRecordLimit(records int) error {
	if records > maxRecordsPerRequest {
		return refuse(kerr.PolicyViolation,
			"Unable to perform excessively large batch operation: more than %d records.", maxRecordsPerRequest)
	}
	return nil
}

func (c *topicCreator) assigned(t *kmsg.CreateTopicsRequestTopic) ([]newPartition, error) {
	if t.ReplicationFactor != -1 {
		return nil, refuse(kerr.InvalidRequest,
			"A manual partition assignment was specified, but replication factor was not set to -1.")
	}
	if t.NumPartitions != -1 {
		return nil, refuse(kerr.InvalidRequest,
			"A manual partition assignment was specified, but numPartitions was not set to -1.")
	}
	if err := checkRecordLimit(len(c.records) + len(t.ReplicaAssignment)); err != nil {
		return nil, err
	}
	byID := make(map[int32]newPartition, len(t.ReplicaAssignment))
	factor := 0
	for _, a := range t.ReplicaAssignment {
		if _, ok := byID[a.Partition]; ok {
			return nil, refuse(kerr.InvalidReplicaAssignment,
				"Found multiple manual partition assignments for partition %d", a.Partition)
		}
		p, err := assignedPartition(c.im, a.Partition, a.Replicas, factor)
		if err != nil {
			return nil, err
		}
		byID[a.Partition], factor = p, len(a.Replicas)
	}
	partitions := make([]newPartition, len(byID))
	for i := range partitions {
		p, ok := byID[int32(i)]
		if !ok {
			return nil, refuse(kerr.InvalidReplicaAssignment,
				"partitions should be a consecutive 0-based integer sequence")
		}
		partitions[i] = p
	}
	return partitions, nil
}

func assignedPartition(im *metadata.Image, id int32, replicas []int32, factor int) (newPartition, error) {
	if err := checkAssignment(im, replicas, factor); err != nil {
		return newPartition{}, err
	}
	isr := activeReplicas(im, replicas)
	if len(isr) == 0 {
		return newPartition{}, refuse(kerr.InvalidReplicaAssignment,
			"All brokers specified in the manual partition assignment for partition %d are fenced or in controlled shutdown.", id)
	}
	return newPartition{slices.Clone(replicas), isr}, nil
}

// describe is the new topic's effective configs by name. Most topics override
// little or nothing, so what they share is worked out once per request.
func (c *topicCreator) describe(overrides map[string]string) []kmsg.CreateTopicsResponseTopicConfig {
	entries := c.defaults
	switch {
	case len(overrides) > 0:
		entries = c.layers.DescribeTopic(overrides)
	case entries == nil:
		entries = c.layers.DescribeTopic(nil)
		c.defaults = entries
	}
	configs := make([]kmsg.CreateTopicsResponseTopicConfig, len(entries))
	for i, e := range entries {
		configs[i] = kmsg.NewCreateTopicsResponseTopicConfig()
		configs[i].Name, configs[i].Value = e.Name, e.Value
		configs[i].ReadOnly, configs[i].IsSensitive = e.ReadOnly, e.Sensitive
		configs[i].Source = int8(e.Source)
	}
	return configs
}

const (
	// maxTopicNameBytes leaves room in a file name for the partition and the
	// suffix of a deleted folder.
	maxTopicNameBytes = 249
	// clusterMetadataTopic is the name under which tools ask for the quorum.
	clusterMetadataTopic = "__cluster_metadata"
)

// checkTopicName refuses what Kafka refuses as the name of a new topic.
func checkTopicName(name string) error {
	invalid := func(reason string) error {
		return refuse(kerr.InvalidTopicException, "Topic name is invalid: %s", reason)
	}
	switch {
	case name == "":
		return invalid("the empty string is not allowed")
	case name == "." || name == "..":
		return invalid("'" + name + "' is not allowed")
	case len(name) > maxTopicNameBytes:
		return invalid("the length of '" + name + "' is longer than the max allowed length 249")
	case strings.ContainsFunc(name, notInTopicName):
		return invalid("'" + name + "' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'")
	}
	return nil
}

func notInTopicName(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return r != '.' && r != '_' && r != '-'
}

// sameMetricName maps names that metrics cannot tell apart to one.
func sameMetricName(name string) string { return strings.ReplaceAll(name, ".", "_") }
