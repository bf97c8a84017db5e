//go:build conformance

package conformance

import (
	"flag"
	"os"
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
	run   = server.NewRun()
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
	os.Exit(server.Main(m, root, func(s *server.Server) { under = s }))
}
