package lint

import (
	"bytes"
	"go/format"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
)

// forbidden is text that must not be in any file, with the reason. The patterns
// are written so that they do not match themselves.
var forbidden = []struct {
	pattern *regexp.Regexp
	reason  string
}{
	{regexp.MustCompile(`(^|[^A-Za-z0-9_.-])/wor[k]\b`), "a path of one machine"},
	{regexp.MustCompile(`\.\./share[d]\b`), "a path outside of the project"},
	{regexp.MustCompile(`registry\.npm[j]s\.org|pypi\.or[g]|pythonhosted\.or[g]|repo1?\.maven\.(apache\.)?or[g]|proxy\.golang\.or[g]|crates\.i[o]\b`), "the host of a package registry: tools know theirs"},
	{regexp.MustCompile(`\b(TOD[O]|FIXM[E]|XX[X])\b`), "finish it, or put it on the roadmap"},
}

func TestForbiddenText(t *testing.T) {
	for _, name := range source(t).texts {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		for _, rule := range forbidden {
			if at := rule.pattern.FindIndex(text); at != nil {
				t.Errorf("%s:%d: %q: %s", name, bytes.Count(text[:at[0]], []byte("\n"))+1, bytes.TrimSpace(text[at[0]:at[1]]), rule.reason)
			}
		}
	}
}

func TestFormatting(t *testing.T) {
	for _, f := range source(t).goFiles {
		formatted, err := format.Source(f.text)
		if err != nil {
			t.Errorf("%s: %v", f.path, err)
		} else if !bytes.Equal(formatted, f.text) {
			t.Errorf("%s is not formatted: make fmt", f.path)
		}
	}
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	for folder, files := range source(t).packages() {
		documented, onlyTests := false, true
		for _, f := range files {
			onlyTests = onlyTests && f.test
		}
		for _, f := range files {
			documented = documented || f.ast.Doc != nil && (!f.test || onlyTests) || f.generated && len(files) == 1
		}
		if !documented {
			t.Errorf("%s has no package comment", folder)
		}
	}
}

func TestGeneratedPagesAreCurrent(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != configkeys.Markdown() {
		t.Error("docs/configuration.md differs from the key tables: make docs")
	}
}

var markdownLink = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)`)

func TestLinksOfPagesLeadSomewhere(t *testing.T) {
	for _, name := range source(t).texts {
		if path.Ext(name) != ".md" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range markdownLink.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(link[1], "://") || strings.HasPrefix(link[1], "mailto:") {
				continue
			}
			target := filepath.Join(root, filepath.FromSlash(path.Join(path.Dir(name), link[1])))
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: the link to %s leads nowhere", name, link[1])
			}
		}
	}
}

var required = regexp.MustCompile(`(?m)^(?:require|tool)?\s+([a-z0-9.-]+\.[a-z]+/\S+)(?: v\S+)?$`)

// TestDependenciesAreAccountedFor looks for every direct dependency of every
// module in docs/dependencies.md.
func TestDependenciesAreAccountedFor(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "dependencies.md"))
	if err != nil {
		t.Fatal(err)
	}
	modules := 0
	for _, name := range source(t).texts {
		if path.Base(name) != "go.mod" {
			continue
		}
		modules++
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range required.FindAllStringSubmatch(string(text), -1) {
			if !strings.HasPrefix(match[1], modulePrefix) && !bytes.Contains(page, []byte(match[1])) {
				t.Errorf("%s needs %s, which docs/dependencies.md does not have", name, match[1])
			}
		}
	}
	if modules == 0 {
		t.Error("no go.mod was found")
	}
}
