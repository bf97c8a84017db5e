package lint

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// impureImports are packages that bring in the world outside.
var impureImports = []string{"net", "net/http", "crypto/rand", "os/exec", "log", "log/slog", "go.uber.org/zap", "github.com/nats-io/nats.go"}

// clock are the members of package time that read or wait for the clock.
var clock = []string{"Now", "Since", "Until", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Sleep"}

// ownRandomness are the members of math/rand that do not touch the global source.
var ownRandomness = []string{"New", "NewSource", "NewPCG", "NewChaCha8", "NewZipf", "Rand", "Source", "PCG", "ChaCha8", "Zipf"}

// TestPureCores checks the packages of pure.txt: time, randomness and
// everything else from outside comes in as an argument, and they start nothing.
func TestPureCores(t *testing.T) {
	packages := source(t).packages()
	for _, entry := range list(t, "pure.txt") {
		files := packages[entry[0]]
		if files == nil {
			t.Errorf("pure.txt: there is no package %s", entry[0])
		}
		for _, f := range files {
			if f.test || f.generated {
				continue
			}
			for _, imported := range f.imports() {
				if slices.Contains(impureImports, imported) {
					t.Errorf("%s imports %s", f.path, imported)
				}
			}
			ast.Inspect(f.ast, func(n ast.Node) bool {
				if what := impurity(f, n); what != "" {
					t.Errorf("%s:%d: %s", f.path, f.line(n.Pos()), what)
				}
				return true
			})
		}
	}
}

func impurity(f *goFile, n ast.Node) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "go statement"
	case *ast.CallExpr:
		if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Go" {
			return "starts a goroutine"
		}
	case *ast.SelectorExpr:
		x, ok := n.X.(*ast.Ident)
		if !ok {
			return ""
		}
		switch packageOf(f, x.Name) {
		case "time":
			if slices.Contains(clock, n.Sel.Name) {
				return "reads the clock: time." + n.Sel.Name
			}
		case "math/rand", "math/rand/v2":
			if !slices.Contains(ownRandomness, n.Sel.Name) {
				return "global randomness: rand." + n.Sel.Name
			}
		}
	}
	return ""
}

// packageOf returns the path of the import that the file calls name.
func packageOf(f *goFile, name string) string {
	for _, spec := range f.ast.Imports {
		imported := strings.Trim(spec.Path.Value, `"`)
		switch {
		case spec.Name != nil && spec.Name.Name == name:
			return imported
		case spec.Name == nil && (strings.HasSuffix("/"+imported, "/"+name) || strings.HasSuffix(imported, "/"+name+"/v2")):
			return imported
		}
	}
	return ""
}

// TestTestsDoNotSleep lets only files sleep that use testing/synctest, whose time is not real.
func TestTestsDoNotSleep(t *testing.T) {
	waivers := readWaivers(t)
	for _, f := range source(t).goFiles {
		if !f.test && !strings.HasPrefix(f.path, "tests/") || slices.Contains(f.imports(), "testing/synctest") {
			continue
		}
		count := 0
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Sleep" {
				if x, ok := s.X.(*ast.Ident); ok && packageOf(f, x.Name) == "time" {
					count++
				}
			}
			return true
		})
		waivers.check(t, "sleep", f.path, count, 0, "wait for the condition, or use testing/synctest")
	}
}
