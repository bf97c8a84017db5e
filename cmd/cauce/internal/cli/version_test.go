package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/cauce-stream/cauce/libs/process"
)

// TestVersion asks in both ways: the flag is what every program has, the command can answer in JSON.
func TestVersion(t *testing.T) {
	for _, args := range [][]string{{"--version"}, {"version"}} {
		var out, errs bytes.Buffer
		if code := Run(t.Context(), args, strings.NewReader(""), &out, &errs); code != 0 || out.String() != process.VersionLine("cauce")+"\n" || errs.Len() > 0 {
			t.Errorf("%v: code %d, printed %q and %q", args, code, out.String(), errs.String())
		}
	}
}
