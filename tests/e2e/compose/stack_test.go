//go:build compose

// Package compose starts the stack of deploy/compose with its real images and uses it from outside, as its users do.
package compose

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cauce-stream/cauce/tests/measure"
	"github.com/cauce-stream/cauce/tests/retry"
)

const (
	root        = "../../.."
	prometheus  = "http://127.0.0.1:9090"
	jaeger      = "http://127.0.0.1:16686"
	project     = "cauce-e2e"
	startWithin = 30 * time.Second // of an idle machine; what the stack promises
	healsWithin = time.Minute
)

// external are the addresses that the stack's brokers have outside of the containers.
var external = []string{"127.0.0.1:19092", "127.0.0.1:29092", "127.0.0.1:39092"}

// members are the containers of Cauce's own programs in the full cluster.
var members = []string{"controller-1", "controller-2", "controller-3", "broker-1", "broker-2", "broker-3", "groupcoord-1", "groupcoord-2", "txncoord-1", "txncoord-2",
	"connect-1", "connect-2"}

// docker runs the command line, and fails the test when it fails.
func docker(t *testing.T, args ...string) string {
	t.Helper()
	output, err := run(t.Context(), "docker", args...)
	if err != nil {
		t.Fatalf("docker %s: %v", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(output)
}

// compose runs `docker compose` on the stack under a project of the test's own.
func compose(t *testing.T, args ...string) string {
	t.Helper()
	return docker(t, composeArgs(args...)...)
}

func composeArgs(args ...string) []string {
	return append([]string{
		"compose", "--progress", "quiet", "--project-name", project, "--project-directory", root + "/deploy/compose",
		"--file", root + "/deploy/compose/compose.yaml", "--file", "override.yaml",
	}, args...)
}

func run(ctx context.Context, program string, args ...string) (string, error) {
	var output, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = &output, &errs
	if err := cmd.Run(); err != nil {
		return output.String(), fmt.Errorf("%w: %s", err, strings.TrimSpace(errs.String()))
	}
	return output.String(), nil
}

// startStack makes an engine, Compose and the images available and starts the stack of these profiles on empty volumes. It
// returns how long that took from `docker compose up` to healthy.
func startStack(t *testing.T, profiles string) time.Duration {
	t.Helper()
	settings, err := run(t.Context(), "./engine")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(settings) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		t.Setenv(name, value)
	}
	for _, archive := range []string{"cauce-controller", "cauce-broker", "cauce-groupcoord", "cauce-txncoord", "cauce-connect", "cauce", "cauce-demo"} {
		docker(t, "load", "--quiet", "--input", root+"/bin/images/"+archive+".tar")
	}
	if strings.Contains(profiles, "observability") || strings.Contains(profiles, "demo") {
		if _, err := run(t.Context(), "./images"); err != nil {
			t.Fatalf("stand-ins for public images: %v", err)
		}
	}
	t.Setenv("COMPOSE_PROFILES", "*")
	compose(t, "down", "--volumes", "--timeout", "1") // of a run that was cut short
	t.Setenv("COMPOSE_PROFILES", profiles)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if t.Failed() {
			logs, err := run(ctx, "docker", composeArgs("logs", "--tail", "40", "--no-color")...)
			t.Logf("the containers said (%v):\n%s", err, logs)
		}
		if _, err := run(ctx, "docker", composeArgs("down", "--volumes", "--timeout", "1")...); err != nil {
			t.Errorf("taking the stack down: %v", err)
		}
	})
	began := time.Now()
	compose(t, "up", "--detach", "--no-build", "--wait", "--wait-timeout", "180")
	return time.Since(began)
}

// container is the id of a service's container.
func container(t *testing.T, service string) string {
	t.Helper()
	return compose(t, "ps", "--all", "--quiet", service)
}

// image names what a service's container was made from, by its content.
func image(t *testing.T, service string) string {
	t.Helper()
	return docker(t, "inspect", "--format", "{{.Image}}", container(t, service))
}

// state is what the engine says of a container.
type state struct {
	Status   string
	Pid      int
	ExitCode int
	Health   struct{ Status string }
}

func inspect(t *testing.T, id string) (s state) {
	t.Helper()
	if err := json.Unmarshal([]byte(docker(t, "inspect", "--format", "{{json .State}}", id)), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// healthy waits until the service's container runs and says that it is ready.
func healthy(t *testing.T, service string) {
	t.Helper()
	id := container(t, service)
	eventually(t, service+" is healthy", func(context.Context) error {
		if s := inspect(t, id); s.Status != "running" || s.Health.Status != "healthy" {
			return fmt.Errorf("it is %s, %s", s.Status, s.Health.Status)
		}
		return nil
	})
}

// crash kills the process of a service's container behind the engine's back, as a fault of its own would.
func crash(t *testing.T, service string) {
	t.Helper()
	if err := syscall.Kill(inspect(t, container(t, service)).Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// eventually tries until there is no error, for healsWithin.
func eventually(t *testing.T, what string, try func(context.Context) error) {
	t.Helper()
	if err := retry.Until(t.Context(), healsWithin, try); err != nil {
		t.Fatalf("%s: not after %v: %v", what, healsWithin, err)
	}
}

// getJSON decodes what an HTTP server answers to a question.
func getJSON(ctx context.Context, url string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", url, response.Status, text)
	}
	return json.Unmarshal(text, into)
}

// memory is the resident memory of a container's process in MiB.
func memory(t *testing.T, service string) float64 {
	t.Helper()
	mib, err := measure.ResidentMiB(inspect(t, container(t, service)).Pid)
	if err != nil {
		t.Fatalf("%s: %v", service, err)
	}
	return mib
}

// cacheDir is where the scripts keep what they build.
func cacheDir(t *testing.T) string {
	t.Helper()
	dir, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return dir + "/cauce-e2e"
}
