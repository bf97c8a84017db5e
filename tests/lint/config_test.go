package lint

import (
	"go/ast"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
)

// TestDocumentedKeysAreRead compares what docs/configuration.md says has an
// effect with what the code reads: a node key is read when its name stands in
// the code of a library or service, or when a topic or group key that follows
// it does.
func TestDocumentedKeysAreRead(t *testing.T) {
	literals := map[string]bool{}
	for _, f := range source(t).goFiles {
		if f.test || f.folder() == "libs/kafka/configkeys" && f.path != "libs/kafka/configkeys/identity.go" || strings.HasPrefix(f.path, "tests/") {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				text, _ := strconv.Unquote(l.Value)
				literals[text] = true
			}
			return true
		})
	}
	for k := range configkeys.Broker().Keys() {
		read := literals[k.Name]
		for _, follower := range configkeys.Followers(k.Name) {
			read = read || literals[follower]
		}
		switch {
		case read && configkeys.Unused(k.Name):
			t.Errorf("%s is read: take it off the list of unused keys", k.Name)
		case !read && !configkeys.Unused(k.Name) && !k.Internal:
			t.Errorf("%s is not read anywhere: put it on the list of unused keys", k.Name)
		}
	}
}
