package worker

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/cauce-stream/cauce/services/connect/internal/herder"
	"github.com/cauce-stream/cauce/services/connect/internal/sourcetask"
	"github.com/cauce-stream/cauce/services/connect/internal/work"
	"github.com/cauce-stream/cauce/services/connect/internal/workerconfig"
)

// maxFencings bounds how many producers are fenced at the same time.
const maxFencings = 16

// awaitFencing has the leader make sure that earlier tasks of a source write no more, before a task starts that may have other parts of the source than
// the one of its number had before.
func (w *Worker) awaitFencing(ctx context.Context, i *instance) error {
	if err := w.stillCurrent(i); err != nil {
		return err
	}
	for ctx.Err() == nil && !i.stopped() {
		err := w.herder.Fence(ctx, i.item.Connector)
		var elsewhere *herder.Elsewhere
		if errors.As(err, &elsewhere) {
			err = w.askLeader(ctx, http.MethodPut, elsewhere.URL, i.item.Connector, "fence", struct{}{})
		}
		if err == nil {
			return w.stillCurrent(i)
		}
		w.log.Sugar().Warnf("earlier tasks of connector %s are not fenced yet: %v", i.item.Connector, err)
		pause(ctx, retryBackoff)
	}
	return errors.Join(ctx.Err(), w.stillCurrent(i))
}

// fence ends the producers of a source's earlier tasks: whoever asks for a producer id with a transactional id has that of earlier ones end.
func (w *Worker) fence(ctx context.Context, connector string, tasks int) error {
	c, ok := w.herder.Configs().Connector(connector)
	if !ok {
		return fmt.Errorf("%w: connector %q", herder.ErrNotFound, connector)
	}
	c, err := w.plugins.resolve(c)
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(maxFencings)
	for _, item := range work.Tasks(connector, tasks) {
		group.Go(func() error {
			id := sourcetask.TransactionalID(w.config.Values, item.Connector, int(item.Task))
			options, err := w.client(&instance{item: item}, c, workerconfig.Producer)
			if err != nil {
				return err
			}
			client, err := kgo.NewClient(append(options, kgo.TransactionalID(id))...)
			if err != nil {
				return err
			}
			defer client.Close()
			for {
				_, _, err := client.ProducerID(ctx)
				if err == nil {
					return nil
				}
				if !errors.Is(err, kerr.ConcurrentTransactions) || ctx.Err() != nil {
					return fmt.Errorf("fence transactional id %q: %w", id, err)
				}
				pause(ctx, retryBackoff)
			}
		})
	}
	return group.Wait()
}
