//go:build conformance

package connect

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/cauce-stream/cauce/tests/conformance/internal/server"
)

// root is the project's folder as seen from this package.
const root = "../../.."

var all = flag.Bool("all", false, "run each way in which workers share work, which takes two minutes more")

// under is the broker under test; run tells this run's names from those of others on the same broker.
var (
	under *server.Server
	run   = runID()
)

func TestMain(m *testing.M) {
	flag.Parse()
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "connect:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func runAll(m *testing.M) (int, error) {
	java, err := clientDir("java")
	if err != nil {
		return 1, err
	}
	if under, err = server.ForTests(context.Background(), root, java); err != nil {
		return 1, err
	}
	code := m.Run()
	return code, under.Stop()
}

// clientDir returns the absolute path of one folder of testdata/clients.
func clientDir(name string) (string, error) {
	return filepath.Abs(filepath.Join("..", "testdata", "clients", name))
}

func runID() string {
	var b [3]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
