package herder

import (
	"context"
	"fmt"

	"github.com/cauce-stream/cauce/services/connect/internal/configs"
	"github.com/cauce-stream/cauce/services/connect/internal/status"
	"github.com/cauce-stream/cauce/services/connect/internal/work"
)

// Sweep takes what is said of connectors and tasks out of the status topic that are no longer configured. It is for the leader, after a rebalance: by
// then whoever ran them has stopped them.
func (h *Herder) Sweep(ctx context.Context) error {
	if err := h.lead(ctx); err != nil {
		return err
	}
	records := h.orphans()
	if len(records) == 0 {
		return nil
	}
	return h.deps.WriteStatus(ctx, records)
}

func (h *Herder) orphans() []status.Record {
	h.mu.Lock()
	defer h.mu.Unlock()
	configured := map[work.Item]bool{}
	for _, item := range h.configs.Work() {
		configured[item] = true
	}
	var records []status.Record
	for _, item := range h.status.Items() {
		if !configured[item] {
			records = append(records, status.RemovalRecord(item))
		}
	}
	for _, name := range h.status.Users() {
		if configured[work.Connector(name)] {
			continue
		}
		for _, topic := range h.status.Topics(name) {
			records = append(records, status.TopicRemovalRecord(name, topic.Name))
		}
	}
	return records
}

// RotateKey gives the workers a new session key if there is none, if it is as old as ttlMs (0 for no such age), or if it is for another algorithm.
// generate makes one. It is for the leader.
func (h *Herder) RotateKey(ctx context.Context, nowMs, ttlMs int64, algorithm string, generate func() ([]byte, error)) error {
	if err := h.lead(ctx); err != nil {
		return err
	}
	now := h.SessionKey()
	if now != nil && now.Algorithm == algorithm && (ttlMs == 0 || nowMs < now.CreatedMs+ttlMs) {
		return nil
	}
	key, err := generate()
	if err != nil {
		return fmt.Errorf("make a session key: %w", err)
	}
	return h.deps.WriteConfigs(ctx, []configs.Record{configs.SessionKeyRecord(configs.SessionKey{Key: key, Algorithm: algorithm, CreatedMs: nowMs})})
}
