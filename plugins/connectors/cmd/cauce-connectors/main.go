// Command cauce-connectors is the plugin program with the connectors that ship with Cauce.
package main

import (
	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/plugins/connectors"
)

func main() { plugin.Serve(connectors.All()...) }
