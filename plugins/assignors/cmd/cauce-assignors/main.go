// Command cauce-assignors is the plugin program with the assignors that ship with Cauce.
package main

import (
	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/plugins/assignors/lagaware"
	"github.com/cauce-stream/cauce/plugins/assignors/rackaware"
	"github.com/cauce-stream/cauce/plugins/assignors/ranges"
	"github.com/cauce-stream/cauce/plugins/assignors/uniform"
)

func main() {
	plugin.Serve(uniform.Assignor{}, ranges.Assignor{}, rackaware.Assignor{}, lagaware.Assignor{})
}
