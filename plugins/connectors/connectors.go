// Package connectors lists the connectors that ship with Cauce.
package connectors

import (
	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/plugins/connectors/blackhole"
	"github.com/cauce-stream/cauce/plugins/connectors/file"
	"github.com/cauce-stream/cauce/plugins/connectors/generator"
	"github.com/cauce-stream/cauce/plugins/connectors/httpapi"
	"github.com/cauce-stream/cauce/plugins/connectors/natsio"
	"github.com/cauce-stream/cauce/plugins/connectors/postgres"
)

// All returns them, in the order in which they are shown.
func All() []plugin.Plugin {
	return []plugin.Plugin{file.Source{}, file.Sink{}, generator.Source{}, blackhole.Sink{}, httpapi.Source{}, httpapi.Sink{}, natsio.Source{}, natsio.Sink{},
		postgres.Source{}, postgres.Sink{}}
}
