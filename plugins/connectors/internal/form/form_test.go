package form

import (
	"errors"
	"testing"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
)

func TestForms(t *testing.T) {
	shared := configdef.Definition{{Name: "a"}, {Name: "b"}}
	all := Define(Group{"One", shared}, Group{"Two", configdef.Definition{{Name: "c"}}})
	if len(all) != 3 || all[1].Group != "One" || all[1].Order != 2 || all[2].Group != "Two" || all[2].Order != 1 || shared[0].Group != "" {
		t.Errorf("%+v of %+v", all, shared)
	}
	var f Findings
	f.Hide("a", "b")
	if f.Add("b", nil); f.Err() != nil || len(f) != 2 || !f[1].Hidden {
		t.Errorf("%+v", f)
	}
	f.Add("b", errors.New("first"))
	f.Add("c", errors.New("second"))
	if err := f.Err(); err == nil || err.Error() != "b: first" {
		t.Error(err)
	}
}
