// Command cauce-connect is the connector runtime.
package main

import (
	"github.com/cauce-stream/cauce/libs/process"
	"github.com/cauce-stream/cauce/services/connect"
)

func main() {
	process.Main("cauce-connect", "Runs connectors: a Kafka Connect worker with its REST interface.", connect.Main)
}
