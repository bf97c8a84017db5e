package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/services/connect/internal/herder"
)

// dutyInterval is how often a leader looks whether there is something to do.
const dutyInterval = 10 * time.Second

// lead does what is the leader's alone to do, after each rebalance and from time to time while this worker leads.
func (w *Worker) lead(ctx context.Context) error {
	tick := time.NewTicker(dutyInterval)
	defer tick.Stop()
	for {
		select {
		case <-w.leading:
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if g := w.herder.Group(); !g.Leader || g.Pending {
			continue
		}
		if err := w.duties(ctx); err != nil && ctx.Err() == nil {
			w.log.Warn("a leader's duty cannot be done yet", zap.Error(err))
		}
	}
}

func (w *Worker) duties(ctx context.Context) error {
	var err error
	if w.signed() {
		v := w.config.Values
		algorithm := v.String("inter.worker.key.generation.algorithm")
		err = w.herder.RotateKey(ctx, time.Now().UnixMilli(), v.DurationMs("inter.worker.key.ttl.ms").Milliseconds(), algorithm, func() ([]byte, error) {
			return newKey(algorithm, v.Int("inter.worker.key.size"))
		})
	}
	// Not only after a rebalance: what a worker had to say of something that is gone may have come later than that.
	return errors.Join(unlessRegrouped(err), unlessRegrouped(w.herder.Sweep(ctx)))
}

// unlessRegrouped drops the error of what was not done as the group has changed meanwhile.
func unlessRegrouped(err error) error {
	var elsewhere *herder.Elsewhere
	if errors.As(err, &elsewhere) || errors.Is(err, herder.ErrConflict) {
		return nil
	}
	return err
}

// keyBits are the sizes of keys where none is set: those that Java's generators have.
var keyBits = map[string]int{"HmacSHA1": 512, "HmacSHA256": 256, "HmacSHA384": 384, "HmacSHA512": 512}

func newKey(algorithm string, bits int) ([]byte, error) {
	if bits == 0 {
		bits = keyBits[algorithm]
	}
	key := make([]byte, (bits+7)/8)
	if _, err := rand.Read(key); err != nil {
		return nil, fmt.Errorf("a key of %d bits: %w", bits, err)
	}
	return key, nil
}
