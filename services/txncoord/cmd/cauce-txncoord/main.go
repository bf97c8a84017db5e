// Command cauce-txncoord is a node of the transaction coordination plane.
package main

import (
	"github.com/cauce-stream/cauce/libs/process"
	"github.com/cauce-stream/cauce/services/txncoord"
)

func main() {
	process.Main("cauce-txncoord", "Will coordinate transactions; serves the APIs that every node serves.", txncoord.Main)
}
