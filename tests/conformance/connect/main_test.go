//go:build conformance

package connect

import (
	"flag"
	"os"
	"testing"

	"github.com/cauce-stream/cauce/tests/conformance/internal/server"
)

// root is the project's folder as seen from this package.
const root = "../../.."

var all = flag.Bool("all", false, "run each way in which workers share work, which takes two minutes more")

// under is the broker under test; run tells this run's names from those of others on the same broker.
var (
	under *server.Server
	run   = server.NewRun()
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(server.Main(m, root, func(s *server.Server) { under = s }))
}
