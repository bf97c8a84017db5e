package herder

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/cauce-stream/cauce/services/connect/internal/configs"
	"github.com/cauce-stream/cauce/services/connect/internal/offsets"
	"github.com/cauce-stream/cauce/services/connect/internal/status"
)

// The keys of a connector's configuration that the herder itself reads.
const (
	nameKey  = "name"
	classKey = "connector.class"
)

// Create makes a connector, which is to be in the target state from the beginning. It is for the leader.
func (h *Herder) Create(ctx context.Context, name string, c configs.Config, initial configs.Target) (Info, error) {
	c, err := h.check(ctx, name, c)
	if err != nil {
		return Info{}, err
	}
	if err := h.lead(ctx); err != nil {
		return Info{}, err
	}
	if _, err := h.connector(name); err == nil {
		return Info{}, fmt.Errorf("%w: connector %q already exists", ErrConflict, name)
	}
	records := []configs.Record{configs.ConnectorRecord(name, c)}
	if initial != configs.Started {
		records = append([]configs.Record{configs.TargetRecord(name, initial)}, records...)
	}
	if err := h.deps.WriteConfigs(ctx, records); err != nil {
		return Info{}, fmt.Errorf("create connector %q: %w", name, err)
	}
	return h.Info(name)
}

// Put sets the whole configuration of a connector, be it there or not. It is for the leader.
func (h *Herder) Put(ctx context.Context, name string, c configs.Config) (info Info, created bool, err error) {
	if c, err = h.check(ctx, name, c); err != nil {
		return Info{}, false, err
	}
	if err := h.lead(ctx); err != nil {
		return Info{}, false, err
	}
	_, err = h.connector(name)
	created = err != nil
	if err := h.deps.WriteConfigs(ctx, []configs.Record{configs.ConnectorRecord(name, c)}); err != nil {
		return Info{}, false, fmt.Errorf("configure connector %q: %w", name, err)
	}
	info, err = h.Info(name)
	return info, created, err
}

// Patch changes single keys of a connector's configuration; nil takes a key away. It is for the leader.
func (h *Herder) Patch(ctx context.Context, name string, patch map[string]*string) (Info, error) {
	if err := h.lead(ctx); err != nil {
		return Info{}, err
	}
	before, err := h.connector(name)
	if err != nil {
		return Info{}, err
	}
	c := maps.Clone(before)
	for key, value := range patch {
		if value == nil {
			delete(c, key)
		} else {
			c[key] = *value
		}
	}
	info, _, err := h.Put(ctx, name, c)
	return info, err
}

// check returns a connector's configuration with its name in it, or what is wrong with it.
func (h *Herder) check(ctx context.Context, name string, c configs.Config) (configs.Config, error) {
	c = maps.Clone(c)
	if c == nil {
		c = configs.Config{}
	}
	if given, ok := c[nameKey]; ok && given != name {
		return nil, fmt.Errorf("%w: the configuration names connector %q, the request %q", ErrInvalid, given, name)
	}
	c[nameKey] = name
	v, err := h.Validate(ctx, c)
	if err != nil {
		return nil, err
	}
	faults := v.Errors()
	if len(faults) == 0 {
		return c, nil
	}
	return nil, fmt.Errorf("%w: the configuration of connector %q has %d fault(s), which PUT /connector-plugins/{class}/config/validate shows by key:\n%s",
		ErrInvalid, name, len(faults), strings.Join(faults, "\n"))
}

// Validate checks a connector's configuration.
func (h *Herder) Validate(ctx context.Context, c configs.Config) (*Validation, error) {
	if c[classKey] == "" {
		return nil, fmt.Errorf("%w: the configuration has no %s", ErrInvalid, classKey)
	}
	return h.deps.Validate(ctx, c)
}

// Delete takes a connector away. Where it stands is kept. It is for the leader.
func (h *Herder) Delete(ctx context.Context, name string) error {
	if err := h.leadFor(ctx, name); err != nil {
		return err
	}
	return h.deps.WriteConfigs(ctx, configs.RemovalRecords(name))
}

// leadFor is an error unless this worker leads and the connector is there.
func (h *Herder) leadFor(ctx context.Context, name string) error {
	if err := h.lead(ctx); err != nil {
		return err
	}
	_, err := h.connector(name)
	return err
}

// Stop has a connector keep nothing but its configuration: first it loses its tasks. It is for the leader.
func (h *Herder) Stop(ctx context.Context, name string) error {
	if err := h.leadFor(ctx, name); err != nil {
		return err
	}
	return h.deps.WriteConfigs(ctx, append(configs.TaskRecords(name, nil), configs.TargetRecord(name, configs.Stopped)))
}

// Pause has a connector and its tasks wait. Any worker may write that.
func (h *Herder) Pause(ctx context.Context, name string) error {
	return h.target(ctx, name, configs.Paused)
}

// Resume has a connector that waits or is stopped go on. Any worker may write that.
func (h *Herder) Resume(ctx context.Context, name string) error {
	return h.target(ctx, name, configs.Started)
}

func (h *Herder) target(ctx context.Context, name string, t configs.Target) error {
	if _, err := h.connector(name); err != nil {
		return err
	}
	return h.deps.WriteConfigs(ctx, []configs.Record{configs.TargetRecord(name, t)})
}

// ResetTopics forgets which topics a connector has used. Any worker may write that.
func (h *Herder) ResetTopics(ctx context.Context, name string) error {
	if !h.config.TrackTopics || !h.config.ResetTopics {
		return fmt.Errorf("%w: topic.tracking.enable or topic.tracking.allow.reset is off", ErrForbidden)
	}
	topics, err := h.Topics(name)
	if err != nil || len(topics) == 0 {
		return err
	}
	var records []status.Record
	for _, topic := range topics {
		records = append(records, status.TopicRemovalRecord(name, topic))
	}
	return h.deps.WriteStatus(ctx, records)
}

// AlterOffsets changes where a stopped connector stands; nil entries forget all. managed says that the connector's plugin has put right what
// it keeps of offsets itself. It is for the leader.
func (h *Herder) AlterOffsets(ctx context.Context, name string, entries []offsets.Entry) (managed bool, err error) {
	if err := h.leadFor(ctx, name); err != nil {
		return false, err
	}
	s := h.Configs()
	if s.Target(name) != configs.Stopped || len(s.TaskConfigs(name)) > 0 {
		return false, fmt.Errorf("%w: offsets of connector %q can be changed while it is stopped only: PUT /connectors/%s/stop", ErrInvalid, name, name)
	}
	c, _ := s.Connector(name)
	if h.config.ExactlyOnce && h.deps.TypeOf(c) == Source {
		// A task that was cut off could still commit the offsets it had.
		if err := h.fence(ctx, name); err != nil {
			return false, err
		}
	}
	return h.deps.AlterOffsets(ctx, name, c, entries)
}

// PutTasks sets the tasks of a connector, as the worker that runs it has made them out. It is for the leader.
func (h *Herder) PutTasks(ctx context.Context, name string, tasks []configs.Config) error {
	if err := h.leadFor(ctx, name); err != nil {
		return err
	}
	return h.deps.WriteConfigs(ctx, configs.TaskRecords(name, tasks))
}

// Fence makes sure that earlier tasks of a source can write no more (KIP-618). It is for the leader.
func (h *Herder) Fence(ctx context.Context, name string) error {
	if err := h.leadFor(ctx, name); err != nil {
		return err
	}
	return h.fence(ctx, name)
}

// fence does so for one request at a time: a second round would end the producers of tasks that the first has let start.
func (h *Herder) fence(ctx context.Context, name string) error {
	select {
	case h.fencing <- struct{}{}:
		defer func() { <-h.fencing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	s := h.Configs()
	pending, earlier := s.Fencing(name)
	if !pending {
		return nil
	}
	if earlier > 0 {
		if err := h.deps.Fence(ctx, name, earlier); err != nil {
			return fmt.Errorf("fence %d earlier tasks of connector %q: %w", earlier, name, err)
		}
	}
	return h.deps.WriteConfigs(ctx, []configs.Record{configs.FencingRecord(name, len(s.TaskConfigs(name)))})
}

// SetLevels sets the level of a logger on all workers. Any worker may write that.
func (h *Herder) SetLevels(ctx context.Context, logger, level string) error {
	return h.deps.WriteConfigs(ctx, []configs.Record{configs.LevelRecord(logger, level)})
}
