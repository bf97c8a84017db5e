package host

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cauce-stream/cauce/libs/plugin"
)

const patienceMs = 10_000

// TestPluginsEndWithAHostThatIsKilled kills a host with SIGKILL; the next one removes the folder that it left.
func TestPluginsEndWithAHostThatIsKilled(t *testing.T) {
	folder := t.TempDir()
	install(t, folder, "faults", "1")
	cmd := exec.Command(os.Args[0])
	sockets, err := os.MkdirTemp("", "orphan") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(sockets)
	cmd.Env = append(os.Environ(), hostVariable+"="+folder, "TMPDIR="+sockets)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	plugin, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(plugin)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(plugin), Events: unix.POLLIN}}, patienceMs); err != nil || n != 1 {
		t.Errorf("the plugin outlives its host: %d, %v", n, err)
	}
	t.Setenv("TMPDIR", sockets)
	h, _ := start(t, folder, Config{})
	if left, err := os.ReadDir(sockets); err != nil || len(left) != 1 || left[0].Name() != filepath.Base(h.sockets.Path) {
		t.Errorf("folders of sockets: %v, %v", left, err)
	}
}

// TestAPluginEndsWithItsStandardInput is what ends plugins where the kernel does not.
func TestAPluginEndsWithItsStandardInput(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fixtureVariable+"=1", plugin.CookieKey+"="+plugin.CookieValue, "PLUGIN_PROTOCOL_VERSIONS=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "1|1|unix|") {
		t.Fatalf("handshake %q, %v", line, err)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the plugin ended with %v", err)
	}
}

func TestAProgramStartedByHandSaysWhatItIs(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fixtureVariable+"=1.2")
	out, err := cmd.Output()
	if err != nil || !strings.Contains(string(out), "faulty 1.2: fails in every way") {
		t.Errorf("%s, %v", out, err)
	}
}
