//go:build conformance

package connect

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/cauce-stream/cauce/tests/conformance/internal/cache"
	"github.com/cauce-stream/cauce/tests/conformance/internal/server"
)

// TestClients has public clients of the REST interface make, change, pause, resume, restart, stop and delete connectors.
func TestClients(t *testing.T) {
	clients, err := server.ClientDir(root, "connect-python")
	if err != nil {
		t.Fatal(err)
	}
	python, err := cache.Python(t.Context(), clients)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []kind{jvm, ours} {
		t.Run(k.String(), func(t *testing.T) {
			w := start(t, k, "clients-"+k.String())
			folder := t.TempDir()
			if err := os.WriteFile(filepath.Join(folder, "in.txt"), []byte("one\ntwo\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(t.Context(), python, filepath.Join(clients, "client.py"), w.Connect, "clients"+w.mark, folder).CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
