// Command cauce-groupcoord is a node of the group coordination plane.
package main

import (
	"github.com/cauce-stream/cauce/libs/process"
	"github.com/cauce-stream/cauce/services/groupcoord"
)

func main() {
	process.Main("cauce-groupcoord", "Will coordinate groups; serves the APIs that every node serves.", groupcoord.Main)
}
