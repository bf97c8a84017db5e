package main

import (
	"os"
	"testing"
)

func TestThePageIsUpToDate(t *testing.T) {
	written, err := os.ReadFile("../../../../docs/transforms.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(written) != page() {
		t.Error("docs/transforms.md is not what the converters, transforms and predicates say: run make docs")
	}
}
