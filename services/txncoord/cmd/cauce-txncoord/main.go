// Command cauce-txncoord coordinates transactions.
package main

import (
	"github.com/cauce-stream/cauce/libs/process"
	"github.com/cauce-stream/cauce/services/txncoord"
)

func main() {
	process.Main("cauce-txncoord", "Coordinates transactions.", txncoord.Main)
}
