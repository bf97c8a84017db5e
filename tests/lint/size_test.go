package lint

import (
	"bytes"
	"go/ast"
	"strconv"
	"strings"
	"testing"
)

// The size ratchet. Generated code is exempt; functions of tests are, too, for
// the tables in them.
const (
	mostFileLines     = 600
	mostFunctionLines = 70
	mostPackageFiles  = 20 // tests not counted
)

// mostWaivers is the number of entries of waivers.txt. It only goes down.
const mostWaivers = 0

func TestSizes(t *testing.T) {
	waivers := readWaivers(t)
	for folder, files := range source(t).packages() {
		count := 0
		for _, f := range files {
			if f.generated {
				continue
			}
			if !f.test {
				count++
			}
			waivers.check(t, "file", f.path, bytes.Count(f.text, []byte("\n")), mostFileLines, "would a reader find two rooms in it?")
			checkFunctions(t, waivers, f)
		}
		waivers.check(t, "package", folder, count, mostPackageFiles, "split it by concern")
	}
	waivers.checkAllUsed(t, "file", "function", "package")
}

func checkFunctions(t *testing.T, waivers *waivers, f *goFile) {
	if f.test {
		return
	}
	for _, d := range f.ast.Decls {
		if function, ok := d.(*ast.FuncDecl); ok {
			lines := f.line(function.End()) - f.line(function.Pos()) + 1
			waivers.check(t, "function", f.path+":"+functionName(function), lines, mostFunctionLines, "name its steps")
		}
	}
}

func functionName(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	return receiver(d) + "." + d.Name.Name
}

// receiver returns the name of the type that d is a method of.
func receiver(d *ast.FuncDecl) string {
	typ := d.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	switch generic := typ.(type) {
	case *ast.IndexExpr:
		typ = generic.X
	case *ast.IndexListExpr:
		typ = generic.X
	}
	return typ.(*ast.Ident).Name
}

// waivers are what is allowed to be larger than the limits, and how large.
type waivers struct {
	size map[string]int // by kind and name
	used map[string]bool
}

func readWaivers(t *testing.T) *waivers {
	t.Helper()
	w := &waivers{map[string]int{}, map[string]bool{}}
	for _, entry := range list(t, "waivers.txt") {
		if len(entry) != 3 {
			t.Fatalf("waivers.txt: %q is not `kind name size`", entry)
		}
		size, err := strconv.Atoi(entry[2])
		if err != nil {
			t.Fatalf("waivers.txt: %v", err)
		}
		w.size[entry[0]+" "+entry[1]] = size
	}
	if len(w.size) != mostWaivers {
		t.Errorf("waivers.txt has %d entries, mostWaivers says %d; only ever lower both", len(w.size), mostWaivers)
	}
	return w
}

// check reports what is over its limit and not waived, and waivers that are larger than needed.
func (w *waivers) check(t *testing.T, kind, name string, size, limit int, advice string) {
	t.Helper()
	entry := kind + " " + name
	waived, ok := w.size[entry]
	w.used[entry] = ok
	switch {
	case !ok && size > limit:
		t.Errorf("%s %s has %d, the limit is %d: %s", kind, name, size, limit, advice)
	case ok && size > waived:
		t.Errorf("%s %s has grown from %d to %d: %s", kind, name, waived, size, advice)
	case ok && size <= limit:
		t.Errorf("%s %s keeps the limit now: remove its waiver", kind, name)
	case ok && size < waived:
		t.Errorf("%s %s has shrunk to %d: lower its waiver", kind, name, size)
	}
}

// checkAllUsed reports waivers of the given kinds that name nothing.
func (w *waivers) checkAllUsed(t *testing.T, kinds ...string) {
	t.Helper()
	for entry := range w.size {
		for _, kind := range kinds {
			if strings.HasPrefix(entry, kind+" ") && !w.used[entry] {
				t.Errorf("waivers.txt: %q names nothing", entry)
			}
		}
	}
}
