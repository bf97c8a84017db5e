package main

import (
	"os"
	"testing"

	"github.com/cauce-stream/cauce/plugins/connectors"
)

func TestThePageIsUpToDate(t *testing.T) {
	written, err := os.ReadFile("../../../docs/connectors.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(written) != page(connectors.All()) {
		t.Error("docs/connectors.md is not what the connectors say: run make docs")
	}
}
