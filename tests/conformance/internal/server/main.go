package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
)

// Main runs the tests of a package against the server that the environment asks for ([ForTests]), which use is told before. It returns the exit code.
func Main(tests interface{ Run() int }, root string, use func(*Server)) int {
	s, err := ForTests(context.Background(), root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "the server under test:", err)
		return 1
	}
	use(s)
	code := tests.Run()
	if err := s.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "the server under test:", err)
		code = max(code, 1)
	}
	return code
}

// ClientDir is the absolute path of the folder of one client, below the project's root.
func ClientDir(root, name string) (string, error) {
	return filepath.Abs(filepath.Join(root, "tests", "conformance", "testdata", "clients", name))
}

// NewRun is six digits by which names of one run are told from those of others on the same server.
func NewRun() string {
	var b [3]byte
	_, _ = rand.Read(b[:]) // it does not fail
	return hex.EncodeToString(b[:])
}
