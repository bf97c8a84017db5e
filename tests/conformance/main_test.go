//go:build conformance

package conformance

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/cauce-stream/cauce/tests/conformance/internal/member"
	"github.com/cauce-stream/cauce/tests/conformance/internal/server"
)

// root is the project's folder as seen from this package.
const root = "../.."

var rewrite = flag.Bool("rewrite", false, "record what the tools print, instead of comparing; the server must be Apache Kafka")

// under is the server under test; run tells this run's topics from those of others on the same server.
var (
	under *server.Server
	run   = runID()
)

// Members of groups in Go are this binary again, with these variables in the environment: the client to run, and the
// program that some clients are.
const (
	memberClient  = "CAUCE_CONFORMANCE_MEMBER"
	memberProgram = "CAUCE_CONFORMANCE_MEMBER_PROGRAM"
)

func TestMain(m *testing.M) {
	if name := os.Getenv(memberClient); name != "" {
		os.Exit(member.Main(name, os.Getenv(memberProgram), os.Args[1:]))
	}
	flag.Parse()
	code, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
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
	return filepath.Abs(filepath.Join("testdata", "clients", name))
}

func runID() string {
	var b [3]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
