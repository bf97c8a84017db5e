// Command cauce-groupcoord is a node of the group coordination plane.
package main

import (
	"github.com/cauce-stream/cauce/libs/process"
	"github.com/cauce-stream/cauce/services/groupcoord"
)

func main() {
	process.Main("cauce-groupcoord", "Coordinates consumer groups and keeps their committed offsets.", groupcoord.Main)
}
