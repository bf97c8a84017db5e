package lint

import (
	"go/ast"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/cauce-stream/cauce/libs/config"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
)

// TestDocumentedKeysAreRead compares what docs/configuration.md says has an
// effect with what the code reads: a key is read when its name stands in the
// code of a library, service or program, or when a topic or group key that
// follows it or is limited by it does. The keys of Connect's workers and connectors are others, be their names the same.
func TestDocumentedKeysAreRead(t *testing.T) {
	literals := map[string]bool{}
	for _, f := range source(t).goFiles {
		if f.test || f.folder() == "libs/kafka/configkeys" && f.path != "libs/kafka/configkeys/identity.go" || strings.HasPrefix(f.path, "tests/") ||
			strings.HasPrefix(f.path, "services/connect/internal/") {
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
	for _, schema := range []*config.Schema{configkeys.Broker(), configkeys.Topic(), configkeys.Group(), configkeys.ClientMetrics()} {
		for k := range schema.Keys() {
			if !k.Internal {
				checkRead(t, k.Name, literals)
			}
		}
	}
}

func checkRead(t *testing.T, name string, literals map[string]bool) {
	t.Helper()
	read := literals[name] || literals[limited(name)]
	for _, follower := range configkeys.Followers(name) {
		read = read || literals[follower]
	}
	switch {
	case read && configkeys.Unused(name):
		t.Errorf("%s is read: take it off the list of unused keys", name)
	case !read && !configkeys.Unused(name):
		t.Errorf("%s is not read anywhere: put it on the list of unused keys", name)
	}
}

// limited returns the group key whose values a broker key bounds, group.K.min.R and group.K.max.R those of K.R; ValidateGroup puts
// the names of limits together. Another key limits itself.
func limited(name string) string {
	key, ok := strings.CutPrefix(name, "group.")
	if !ok {
		return name
	}
	for _, infix := range []string{".min.", ".max."} {
		if kind, rest, ok := strings.Cut(key, infix); ok {
			return kind + "." + rest
		}
	}
	return name
}
