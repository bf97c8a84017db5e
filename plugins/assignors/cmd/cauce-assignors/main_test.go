package main

import (
	"testing"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/kit"
	"github.com/cauce-stream/cauce/plugins/assignors/lagaware"
	"github.com/cauce-stream/cauce/plugins/assignors/rackaware"
	"github.com/cauce-stream/cauce/plugins/assignors/ranges"
	"github.com/cauce-stream/cauce/plugins/assignors/uniform"
)

func TestConformance(t *testing.T) {
	for _, a := range []plugin.Assignor{uniform.Assignor{}, ranges.Assignor{}, rackaware.Assignor{}, lagaware.Assignor{}} {
		for _, result := range kit.Check(t.Context(), a.Assign, nil) {
			t.Run(a.Info().Name+"/"+result.Name, func(t *testing.T) {
				if result.Fault != nil {
					t.Error(result.Fault)
				}
				t.Log(result.Note)
			})
		}
	}
}
