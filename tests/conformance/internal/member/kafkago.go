package member

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

// kafkaGo is a member that runs segmentio/kafka-go: its ConsumerGroup, since its Reader does not tell what it is assigned.
func kafkaGo(ctx context.Context, s Spec, _ string, commands <-chan command) error {
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: s.Group, Brokers: []string{s.Bootstrap}, Topics: []string{s.Topic}, StartOffset: kafka.FirstOffset,
		GroupBalancers:    []kafka.GroupBalancer{kafka.RangeGroupBalancer{}},
		HeartbeatInterval: heartbeatMs * time.Millisecond, SessionTimeout: time.Duration(s.SessionMs) * time.Millisecond,
	})
	if err != nil {
		return err
	}
	m := &kafkaGoMember{spec: s, commands: commands, left: make(chan struct{})}
	closed := make(chan error, 1)
	go func() {
		<-m.left
		closed <- group.Close() // Next says so at once, LeaveGroup takes longer
	}()
	for {
		gen, err := group.Next(ctx)
		if errors.Is(err, kafka.ErrGroupClosed) {
			return <-closed
		}
		var code kafka.Error
		if errors.As(err, &code) && code.Temporary() {
			continue // as its Reader does; the group waits before it joins again
		}
		if err != nil {
			return err
		}
		m.generation(gen)
	}
}

type kafkaGoMember struct {
	spec     Spec
	commands <-chan command
	left     chan struct{} // closed by the command to leave

	mu   sync.Mutex
	next map[int]int64 // what to commit, by partition
}

// generation starts what ends with the generation; the group joins again when all of it has ended.
func (m *kafkaGoMember) generation(gen *kafka.Generation) {
	m.mu.Lock()
	m.next = map[int]int64{}
	m.mu.Unlock()
	var partitions []int32
	var readers sync.WaitGroup
	for _, a := range gen.Assignments[m.spec.Topic] {
		partitions = append(partitions, int32(a.ID))
	}
	sayPartitions(m.spec.Name, "assigned", partitions)
	for _, a := range gen.Assignments[m.spec.Topic] {
		readers.Add(1)
		gen.Start(func(ctx context.Context) {
			defer readers.Done()
			m.read(ctx, a)
		})
	}
	gen.Start(func(ctx context.Context) {
		m.obey(ctx, gen)
		readers.Wait()
		sayPartitions(m.spec.Name, "revoked", partitions)
	})
}

func (m *kafkaGoMember) read(ctx context.Context, a kafka.PartitionAssignment) {
	r := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{m.spec.Bootstrap}, Topic: m.spec.Topic, Partition: a.ID, MaxWait: 200 * time.Millisecond,
	})
	defer r.Close()
	if err := r.SetOffset(a.Offset); err != nil {
		say(m.spec.Name, "error", err.Error())
		return
	}
	for {
		msg, err := r.ReadMessage(ctx)
		if ctx.Err() != nil || errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			say(m.spec.Name, "error", err.Error())
			return
		}
		m.mu.Lock()
		m.next[a.ID] = msg.Offset + 1
		m.mu.Unlock()
		sayRecord(m.spec.Name, int32(a.ID), msg.Offset)
	}
}

func (m *kafkaGoMember) obey(ctx context.Context, gen *kafka.Generation) {
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-m.commands:
			if c.verb == "leave" {
				close(m.left)
				<-ctx.Done()
				return
			}
			m.mu.Lock()
			err := gen.CommitOffsets(map[string]map[int]int64{m.spec.Topic: m.next})
			m.mu.Unlock()
			if err != nil {
				say(m.spec.Name, "error", err.Error())
				return
			}
			say(m.spec.Name, "committed")
		}
	}
}
