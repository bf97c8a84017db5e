// Command gendocs writes docs/configuration.md from the key tables.
package main

import (
	"fmt"
	"os"

	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gendocs FILE")
		os.Exit(2)
	}
	if err := os.WriteFile(os.Args[1], []byte(configkeys.Markdown()), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
