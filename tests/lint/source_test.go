// Package lint holds the project's own rules about its source: what may import
// what, what pure packages must not touch, how long things may grow, and what
// generated pages must equal. `make lint` runs it beside vet and staticcheck.
package lint

import (
	"bufio"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// goFile is one Go file of the project.
type goFile struct {
	path      string // from the root, with slashes
	test      bool
	generated bool
	text      []byte
	fset      *token.FileSet
	ast       *ast.File
}

func (f *goFile) folder() string { return path.Dir(f.path) }

func (f *goFile) line(p token.Pos) int { return f.fset.Position(p).Line }

// imports yields the paths that the file imports.
func (f *goFile) imports() []string {
	var paths []string
	for _, spec := range f.ast.Imports {
		paths = append(paths, strings.Trim(spec.Path.Value, `"`))
	}
	return paths
}

// project is everything that is checked.
type project struct {
	goFiles []*goFile
	texts   []string // paths of all files that hold text, Go files included
}

const (
	root         = "../.."
	modulePrefix = "github.com/cauce-stream/cauce/"
)

// notSource are folders that hold nothing of ours, wherever they lie.
var notSource = []string{".git", ".cache", "bin", "dist", "node_modules", "target", "__pycache__", ".venv"}

// rootData is where a node that runs from here keeps its data.
const rootData = root + "/data"

var textEndings = []string{"", ".go", ".md", ".mod", ".work", ".txt", ".sh", ".py", ".js", ".json", ".java", ".xml", ".rs", ".toml", ".yml", ".yaml", ".proto", ".properties"}

var load = sync.OnceValues(func() (*project, error) {
	p := &project{}
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (slices.Contains(notSource, entry.Name()) || filepath.ToSlash(file) == rootData):
			return fs.SkipDir
		case entry.IsDir() || !entry.Type().IsRegular():
			return nil
		}
		name := filepath.ToSlash(strings.TrimPrefix(file, root+string(filepath.Separator)))
		if slices.Contains(textEndings, path.Ext(name)) {
			p.texts = append(p.texts, name)
		}
		if path.Ext(name) != ".go" || strings.Contains(name, "/testdata/") {
			return nil
		}
		f, err := parse(file, name)
		p.goFiles = append(p.goFiles, f)
		return err
	})
	return p, err
})

func parse(file, name string) (*goFile, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	return &goFile{
		path: name, test: strings.HasSuffix(name, "_test.go"), generated: ast.IsGenerated(tree),
		text: text, fset: fset, ast: tree,
	}, nil
}

func source(t *testing.T) *project {
	t.Helper()
	p, err := load()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// packages returns the Go files by folder.
func (p *project) packages() map[string][]*goFile {
	folders := map[string][]*goFile{}
	for _, f := range p.goFiles {
		folders[f.folder()] = append(folders[f.folder()], f)
	}
	return folders
}

// list reads a file of this folder with one entry a line; # begins a comment.
func list(t *testing.T, file string) [][]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var entries [][]string
	for lines := bufio.NewScanner(strings.NewReader(string(text))); lines.Scan(); {
		line, _, _ := strings.Cut(lines.Text(), "#")
		if fields := strings.Fields(line); len(fields) > 0 {
			entries = append(entries, fields)
		}
	}
	return entries
}
