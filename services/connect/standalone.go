package connect

import (
	"context"
	"errors"
	"fmt"

	"github.com/cauce-stream/cauce/libs/config"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/services/connect/internal/worker"
)

// Standalone is a worker that is in no group, as Kafka's connect-standalone runs one.
type Standalone struct {
	// Worker are the worker's properties, File the name of their file for messages. bootstrap.servers may be any Kafka-compatible cluster, and
	// offset.storage.file.filename is where offsets of sources are kept.
	Worker map[string]config.Entry
	File   string
	// Connectors are the configurations of what to run, each with a name.
	Connectors      []map[string]string
	Version, Commit string
}

// RunStandalone runs connectors until ctx ends, calling ready with the URL of the REST interface once all are made. More can be made over REST, for as long as
// the worker runs.
func RunStandalone(ctx context.Context, c Standalone, d Deps, ready func(url string)) error {
	own := &settings{properties: map[string]string{}, where: c.File}
	own.take(c.File, c.Worker)
	own.tell(d.Log)
	values, err := own.worker("localhost:9092")
	if err != nil {
		return err
	}
	if !values.Given("offset.storage.file.filename") {
		return errors.New("offset.storage.file.filename is not set: a standalone worker keeps offsets of sources in a file")
	}
	if values.String("exactly.once.source.support") != "disabled" {
		return errors.New("exactly.once.source.support: a standalone worker cannot write offsets and records in one transaction")
	}
	hosting, err := hostConfig(configkeys.Broker().Defaults(), values)
	if err != nil {
		return err
	}
	w, err := worker.New(worker.Config{Values: values, Version: c.Version, Commit: c.Commit, Standalone: true}, workerDeps(d, hosting))
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	told := ctx
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var made error
	err = w.Run(ctx, func() {
		for _, config := range c.Connectors {
			if made = w.Create(ctx, config); made != nil {
				stop()
				return
			}
		}
		ready(w.URL())
	})
	if told.Err() != nil {
		made = nil // the end came while connectors were made
	}
	return errors.Join(made, err)
}
