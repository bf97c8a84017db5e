// Command reference writes the page of converters, transforms and predicates: go run ./internal/reference FILE
package main

import (
	_ "embed"
	"fmt"
	"os"
	"strings"

	"github.com/cauce-stream/cauce/services/connect/internal/converter"
	"github.com/cauce-stream/cauce/services/connect/internal/predicate"
	"github.com/cauce-stream/cauce/services/connect/internal/transform"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: reference FILE")
		os.Exit(2)
	}
	if err := os.WriteFile(os.Args[1], []byte(page()), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// The texts between the tables.
var (
	//go:embed head.md
	head string
	//go:embed converters.md
	converters string
	//go:embed transforms.md
	transforms string
	//go:embed predicates.md
	predicates string
)

func page() string {
	var b strings.Builder
	b.WriteString(head + "\n" + converters)
	for _, c := range converter.Classes() {
		fmt.Fprintf(&b, "\n### %s\n\n%s `%s`.\n%s", simple(c.Name), c.Doc, c.Name, c.Definition.Markdown())
	}
	b.WriteString("\n" + transforms)
	all := transform.Classes()
	for i, c := range all {
		name, isValue := strings.CutSuffix(c.Name, "$Value")
		names := "`" + c.Name + "`"
		if isValue && all[i-1].Name == name+"$Key" {
			names = "`" + name + "$Key`, `" + c.Name + "`"
		} else if strings.HasSuffix(c.Name, "$Key") {
			continue
		}
		fmt.Fprintf(&b, "\n### %s\n\n%s %s.\n%s", simple(name), c.Doc, names, c.Definition.Markdown())
	}
	b.WriteString("\n" + predicates)
	for _, c := range predicate.Classes() {
		fmt.Fprintf(&b, "\n### %s\n\n%s `%s`.\n%s", simple(c.Name), c.Doc, c.Name, c.Definition.Markdown())
	}
	return b.String()
}

func simple(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }
