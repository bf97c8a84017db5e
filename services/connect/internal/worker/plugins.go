package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/libs/plugin/host"
	"github.com/cauce-stream/cauce/libs/plugin/remote"
	"github.com/cauce-stream/cauce/services/connect/internal/configs"
	"github.com/cauce-stream/cauce/services/connect/internal/definition"
	"github.com/cauce-stream/cauce/services/connect/internal/herder"
	"github.com/cauce-stream/cauce/services/connect/internal/providers"
	"github.com/cauce-stream/cauce/services/connect/internal/rest"
	"github.com/cauce-stream/cauce/services/connect/internal/workerconfig"
)

// describeTimeout bounds what a plugin is asked while a client waits for something else.
const describeTimeout = 10 * time.Second

// plugins are the connectors that the host has, and what configurations are checked by.
type plugins struct {
	host      atomic.Pointer[host.Host] // nil until it is started
	worker    definition.Worker
	providers *providers.Set
}

// errNoHost is that plugins are asked for before they are started.
var errNoHost = fmt.Errorf("%w: plugins are not started yet", herder.ErrNotReady)

func newPlugins(c Config) (*plugins, error) {
	properties := c.Values.Family(workerconfig.Providers)
	for name, value := range properties {
		delete(properties, name)
		properties[workerconfig.Providers+name] = value
	}
	properties["config.providers"] = strings.Join(c.Values.List("config.providers"), ",")
	set, err := providers.New(properties, os.Environ())
	if err != nil {
		return nil, err
	}
	p := &plugins{worker: definition.Worker{Config: c.Values, Version: c.Version}, providers: set}
	return p, p.worker.Check()
}

func (p *plugins) start(start func() (*host.Host, error)) error {
	h, err := start()
	if err == nil {
		p.host.Store(h)
	}
	return err
}

func (p *plugins) close() error {
	if h := p.host.Load(); h != nil {
		return h.Close()
	}
	return nil
}

// find is the connector that a configuration calls class.
func (p *plugins) find(ctx context.Context, class string) (*host.Connector, error) {
	h := p.host.Load()
	if h == nil {
		return nil, errNoHost
	}
	return h.Connector(ctx, class)
}

// partition asks the partitioner of a name where records go.
func (p *plugins) partition(ctx context.Context, name, topic string, partitions int32, records []plugin.Record) ([]int32, error) {
	h := p.host.Load()
	if h == nil {
		return nil, errNoHost
	}
	return h.Partition(ctx, name, topic, partitions, records)
}

// connector is the plugin of a connector's configuration.
func (p *plugins) connector(ctx context.Context, c configs.Config) (*host.Connector, error) {
	connector, err := p.find(ctx, c[classKey])
	if errors.Is(err, host.ErrUnknownConnector) {
		return nil, fmt.Errorf("%w: %w", herder.ErrInvalid, err)
	}
	return connector, err
}

// version is that of a connector's plugin; empty if it cannot be told, which a connector that is not to run lives with.
func (p *plugins) version(ctx context.Context, c configs.Config) string {
	ctx, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	connector, err := p.find(ctx, c[classKey])
	if err != nil {
		return ""
	}
	return connector.Version
}

func (p *plugins) typeOf(c configs.Config) herder.Type {
	ctx, cancel := context.WithTimeout(context.Background(), describeTimeout)
	defer cancel()
	connector, err := p.find(ctx, c[classKey])
	if err != nil {
		return herder.Unknown
	}
	return typeOf(connector)
}

func typeOf(c *host.Connector) herder.Type {
	if c.Source {
		return herder.Source
	}
	return herder.Sink
}

// resolve returns a configuration with what providers have in place of ${provider:path:key}.
func (p *plugins) resolve(c configs.Config) (configs.Config, error) {
	resolved, err := p.providers.Resolve(c)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", herder.ErrInvalid, err)
	}
	return resolved, nil
}

func (p *plugins) validate(ctx context.Context, c configs.Config) (*herder.Validation, error) {
	resolved, err := p.resolve(c)
	if err != nil {
		return nil, err
	}
	connector, err := p.connector(ctx, resolved)
	if err != nil {
		return nil, err
	}
	d, err := connector.Define(ctx)
	if err != nil {
		return nil, err
	}
	v, err := connector.Validate(ctx, resolved)
	if err != nil {
		return nil, err
	}
	described := describe(c[classKey], connector, d)
	described.Values, described.Guarantees = v.Values, v.Guarantees
	validation := p.worker.Validate(described, resolved)
	validation.Values = providers.Conceal(validation.Values, c, resolved)
	return validation, nil
}

func describe(class string, c *host.Connector, d remote.Definition) definition.Connector {
	return definition.Connector{Class: class, Type: typeOf(c), Version: c.Version, Keys: d.Keys}
}

// definition describes the configuration of a plugin by any of its names.
func (p *plugins) definition(name string) (configdef.Definition, bool) {
	if d, ok := definition.Find(name); ok {
		return d, true
	}
	ctx, cancel := context.WithTimeout(context.Background(), describeTimeout)
	defer cancel()
	connector, err := p.find(ctx, name)
	if err != nil {
		return nil, false
	}
	d, err := connector.Define(ctx)
	if err != nil {
		return nil, false
	}
	return definition.Definition(describe(name, connector, d)), true
}

// list is all plugins that configurations can name. A connector is there under the names of the Java classes as well that it stands for, since that is
// where clients look for them.
func (p *plugins) list() []rest.Plugin {
	var all []rest.Plugin
	if h := p.host.Load(); h != nil {
		for _, c := range h.Connectors() {
			for _, name := range append([]string{c.Name}, c.Aliases...) {
				all = append(all, rest.Plugin{Class: name, Type: string(typeOf(c)), Version: c.Version})
			}
		}
	}
	for _, one := range p.worker.Plugins() {
		all = append(all, rest.Plugin(one))
	}
	return all
}
