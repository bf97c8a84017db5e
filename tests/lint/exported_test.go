package lint

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// selfEvident are methods whose names say all, whatever their type.
var selfEvident = []string{"Error", "String", "Unwrap"}

// TestExportedNamesAreDocumented asks for a comment on every exported function,
// method of an exported type, and type, and on every exported constant and
// variable or the group that it stands in.
func TestExportedNamesAreDocumented(t *testing.T) {
	for _, f := range source(t).goFiles {
		if f.test || f.generated || f.ast.Name.Name == "main" || strings.HasPrefix(f.path, "tests/") {
			continue
		}
		for _, d := range f.ast.Decls {
			for _, name := range undocumented(d) {
				t.Errorf("%s:%d: %s has no comment", f.path, f.line(d.Pos()), name)
			}
		}
	}
}

func undocumented(d ast.Decl) []string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		evident := d.Recv != nil && (slices.Contains(selfEvident, d.Name.Name) || !ast.IsExported(receiver(d)))
		if d.Doc == nil && d.Name.IsExported() && !evident {
			return []string{functionName(d)}
		}
	case *ast.GenDecl:
		if d.Doc != nil || d.Tok == token.IMPORT {
			return nil
		}
		var names []string
		for _, spec := range d.Specs {
			names = append(names, undocumentedSpec(spec)...)
		}
		return names
	}
	return nil
}

func undocumentedSpec(spec ast.Spec) []string {
	var names []string
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if s.Doc == nil && s.Comment == nil && s.Name.IsExported() {
			names = append(names, s.Name.Name)
		}
	case *ast.ValueSpec:
		for _, n := range s.Names {
			if s.Doc == nil && s.Comment == nil && n.IsExported() {
				names = append(names, n.Name)
			}
		}
	}
	return names
}
