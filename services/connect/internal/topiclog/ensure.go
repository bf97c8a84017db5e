package topiclog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
)

// Topic is how a topic has to be, or is made.
type Topic struct {
	Name string
	// Partitions and ReplicationFactor of a topic that is made; -1 for the brokers' default.
	Partitions        int32
	ReplicationFactor int16
	// Settings are further configs of a topic that is made.
	Settings map[string]string
	// Single refuses a topic with more than one partition: its records have one order.
	Single bool
}

// ErrUnfit is wrapped by what Ensure says of a topic that would lose what is written to it, or its order.
var ErrUnfit = errors.New("the topic cannot be used")

const (
	policyKey = "cleanup.policy"
	compact   = "compact"
	// createTimeout is how long the controller may take.
	createTimeout = 30 * time.Second
	// maxBackoff is the longest pause before a topic that is not ready is looked at again, remindAfter how long the log goes without what is the matter.
	maxBackoff, remindAfter = 5 * time.Second, 30 * time.Second
)

// Exists says whether there is a topic.
func Exists(ctx context.Context, d Deps, bootstrap []string, name string) (bool, error) {
	_, err := describe(ctx, d, bootstrap, name)
	if errors.Is(err, errNoTopic) {
		return false, nil
	}
	return err == nil, err
}

// Ensure makes the topic, compacted, if it is not there, and checks it otherwise. It returns once all partitions have a leader, or with ctx: brokers that are
// too few for its replicas may become more. Pauses grow from retryBackoff to some seconds.
func Ensure(ctx context.Context, d Deps, bootstrap []string, t Topic, retryBackoff time.Duration) error {
	told, toldAt := "", time.Time{}
	for ctx.Err() == nil {
		c, err := describe(ctx, d, bootstrap, t.Name)
		switch {
		case errors.Is(err, errNoTopic):
			if err = create(ctx, d, c.controller, t); err == nil {
				continue
			}
		case err == nil && slices.Contains(c.leaders, ""):
			err = fmt.Errorf("topic %q: a partition has no leader", t.Name)
		case err == nil:
			return check(ctx, d, bootstrap, t, len(c.leaders))
		}
		if fatal(err) {
			return err
		}
		if err.Error() != told || time.Since(toldAt) >= remindAfter {
			told, toldAt = err.Error(), time.Now()
			d.Log.Warn("an internal topic is not ready; it is tried again", zap.String("topic", t.Name), zap.Error(err))
		}
		wait(ctx, retryBackoff)
		retryBackoff = max(retryBackoff, min(2*retryBackoff, maxBackoff))
	}
	return fmt.Errorf("topic %q: %w", t.Name, ctx.Err())
}

// fatal tells errors that trying again does not help against.
func fatal(err error) bool {
	var kafka *kerr.Error
	return errors.As(err, &kafka) && !kafka.Retriable && !errors.Is(err, kerr.InvalidReplicationFactor)
}

// create asks the controller for the topic. Another worker may have done so at the same time.
func create(ctx context.Context, d Deps, controller string, t Topic) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = int32(createTimeout.Milliseconds())
	one := kmsg.NewCreateTopicsRequestTopic()
	one.Topic, one.NumPartitions, one.ReplicationFactor = t.Name, t.Partitions, t.ReplicationFactor
	settings := maps.Clone(t.Settings)
	if settings == nil {
		settings = map[string]string{}
	}
	settings[policyKey] = compact
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		config := kmsg.NewCreateTopicsRequestTopicConfig()
		config.Name, config.Value = name, kmsg.StringPtr(settings[name])
		one.Configs = append(one.Configs, config)
	}
	req.Topics = append(req.Topics, one)
	answer, err := d.Do(ctx, controller, req)
	if err != nil {
		return fmt.Errorf("create topic %q: %w", t.Name, err)
	}
	topics := answer.(*kmsg.CreateTopicsResponse).Topics
	if len(topics) != 1 {
		return fmt.Errorf("create topic %q: the answer is about %d topics", t.Name, len(topics))
	}
	code, message := topics[0].ErrorCode, ""
	if topics[0].ErrorMessage != nil {
		message = *topics[0].ErrorMessage
	}
	if err := kerr.ErrorForCode(code); err != nil && code != kerr.TopicAlreadyExists.Code {
		return fmt.Errorf("create topic %q: %w: %s", t.Name, err, message)
	}
	return nil
}

// check holds a topic against what it has to be. A worker that may not read the topic's configs goes on, as Kafka's does.
func check(ctx context.Context, d Deps, bootstrap []string, t Topic, partitions int) error {
	if t.Single && partitions != 1 {
		return fmt.Errorf("%w: topic %q has %d partitions, and has to have one", ErrUnfit, t.Name, partitions)
	}
	policy, err := policyOf(ctx, d, bootstrap, t.Name)
	if err != nil {
		d.Log.Warn("cannot tell whether an internal topic is compacted", zap.String("topic", t.Name), zap.Error(err))
		return nil
	}
	if policy != compact {
		return fmt.Errorf("%w: topic %q has %s=%s, and has to have %s: others would lose connectors, offsets and states without a word",
			ErrUnfit, t.Name, policyKey, policy, compact)
	}
	return nil
}

func policyOf(ctx context.Context, d Deps, bootstrap []string, topic string) (string, error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	one := kmsg.NewDescribeConfigsRequestResource()
	one.ResourceType, one.ResourceName, one.ConfigNames = kmsg.ConfigResourceTypeTopic, topic, []string{policyKey}
	req.Resources = append(req.Resources, one)
	var faults []error
	for _, broker := range bootstrap {
		answer, err := d.Do(ctx, broker, req)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		for _, r := range answer.(*kmsg.DescribeConfigsResponse).Resources {
			if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
				return "", err
			}
			for _, c := range r.Configs {
				if c.Name == policyKey && c.Value != nil {
					return *c.Value, nil
				}
			}
		}
		faults = append(faults, fmt.Errorf("%s says nothing of %s", broker, policyKey))
	}
	return "", errors.Join(faults...)
}
