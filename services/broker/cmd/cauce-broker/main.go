// Command cauce-broker is the data plane: it stores partitions and serves producers and consumers.
package main

import (
	"github.com/cauce-stream/cauce/libs/process"
	"github.com/cauce-stream/cauce/services/broker"
)

func main() {
	process.Main("cauce-broker", "Stores partitions and serves producers and consumers.", broker.Main)
}
