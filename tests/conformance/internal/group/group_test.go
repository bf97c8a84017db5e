package group

import (
	"strings"
	"testing"

	"github.com/cauce-stream/cauce/tests/conformance/internal/member"
)

// TestOverlaps has the members be programs that print what the test wants them to.
func TestOverlaps(t *testing.T) {
	for name, c := range map[string]struct {
		late  bool
		says  string
		fault string
	}{
		"in order":          {false, "A assigned 0\nA revoked 0\nB assigned 0\n", ""},
		"told late":         {true, "A assigned 0\nB assigned 0\nA revoked 0\n", ""},
		"told late by none": {false, "A assigned 0\nB assigned 0\nA revoked 0\n", "partition 0 was assigned to B while A had it"},
		"never told":        {true, "A assigned 0\nB assigned 0\n", "partition 0 was assigned to another, and A never gave it up"},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := New(c.late)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range []string{"A", "B"} {
				if _, err := g.Start(member.Spec{Name: m}, nil, "true"); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := g.write.WriteString(c.says); err != nil {
				t.Fatal(err)
			}
			switch err := g.Close(); {
			case c.fault == "" && err != nil:
				t.Error(err)
			case c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)):
				t.Errorf("found %v, want %s", err, c.fault)
			}
		})
	}
}
