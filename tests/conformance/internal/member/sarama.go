package member

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"
)

// saramaMember is a member that runs IBM/sarama.
func saramaMember(ctx context.Context, s Spec, _ string, commands <-chan command) error {
	c := sarama.NewConfig()
	c.Version = sarama.V4_0_0_0
	c.ClientID = "conformance-sarama"
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.Offsets.AutoCommit.Enable = false
	c.Consumer.Group.Session.Timeout = time.Duration(s.SessionMs) * time.Millisecond
	c.Consumer.Group.Heartbeat.Interval = heartbeatMs * time.Millisecond
	c.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyRange()}
	c.Consumer.MaxWaitTime = 200 * time.Millisecond
	if s.Instance != "-" {
		c.Consumer.Group.InstanceId = s.Instance
	}
	group, err := sarama.NewConsumerGroup([]string{s.Bootstrap}, s.Group, c)
	if err != nil {
		return err
	}
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	h := &saramaHandler{spec: s, sessions: make(chan sarama.ConsumerGroupSession)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.obey(ctx, leave, commands)
	}()
	for ctx.Err() == nil {
		if err = group.Consume(ctx, []string{s.Topic}, h); err != nil && ctx.Err() == nil {
			break
		}
	}
	if ctx.Err() != nil {
		err = nil
	}
	leave()
	<-ended
	return errors.Join(err, group.Close())
}

// saramaHandler hands the current session, a new one with every generation, to the one who commits.
type saramaHandler struct {
	spec     Spec
	sessions chan sarama.ConsumerGroupSession
}

// obey runs commands until ctx ends, or "leave" ends it.
func (h *saramaHandler) obey(ctx context.Context, leave func(), commands <-chan command) {
	var session sarama.ConsumerGroupSession
	for {
		select {
		case session = <-h.sessions:
		case <-ctx.Done():
			return
		case c := <-commands:
			if c.verb == "leave" {
				leave()
				return
			}
			session.Commit()
			say(h.spec.Name, "committed")
		}
	}
}

func (h *saramaHandler) Setup(session sarama.ConsumerGroupSession) error {
	sayPartitions(h.spec.Name, "assigned", session.Claims()[h.spec.Topic])
	select {
	case h.sessions <- session:
		return nil
	case <-session.Context().Done():
		return fmt.Errorf("session ended: %w", session.Context().Err())
	}
}

func (h *saramaHandler) Cleanup(session sarama.ConsumerGroupSession) error {
	sayPartitions(h.spec.Name, "revoked", session.Claims()[h.spec.Topic])
	return nil
}

func (h *saramaHandler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case m, open := <-claim.Messages():
			if !open {
				return nil
			}
			session.MarkMessage(m, "")
			sayRecord(h.spec.Name, m.Partition, m.Offset)
		case <-session.Context().Done():
			return nil
		}
	}
}
