package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/kit"
	"github.com/cauce-stream/cauce/plugins/connectors/blackhole"
	"github.com/cauce-stream/cauce/plugins/connectors/file"
	"github.com/cauce-stream/cauce/plugins/connectors/generator"
)

func TestConformance(t *testing.T) {
	folder := t.TempDir()
	in := filepath.Join(folder, "in.txt")
	if err := os.WriteFile(in, []byte(strings.Repeat("a line\nanother one\n", 50)), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		connector plugin.Connector
		config    map[string]string
	}{
		{file.Source{}, map[string]string{"file": in, "topic": "lines"}},
		{file.Sink{}, map[string]string{"file": filepath.Join(folder, "out.txt")}},
		{generator.Source{}, map[string]string{"topic": "t", "count": "50", "format": "order", "batch.size": "8"}},
		{blackhole.Sink{}, nil},
	}
	for _, test := range tests {
		connector, stop, err := kit.InProcess(test.connector)
		if err != nil {
			t.Fatal(err)
		}
		check := kit.CheckSink
		if _, source := test.connector.(plugin.SourceConnector); source {
			check = kit.CheckSource
		}
		for _, result := range check(t.Context(), connector, kit.Case{Config: test.config}) {
			t.Run(test.connector.Info().Name+"/"+result.Name, func(t *testing.T) {
				if result.Fault != nil {
					t.Errorf("%s: %v", result.Doc, result.Fault)
				}
				t.Log(result.Note)
			})
		}
		stop()
	}
}
