// Command cauce-connect is the connector runtime.
package main

import (
	"github.com/cauce-stream/cauce/libs/process"
	"github.com/cauce-stream/cauce/services/connect"
)

func main() {
	process.Main("cauce-connect", "Will run connectors; serves the APIs that every node serves.", connect.Main)
}
