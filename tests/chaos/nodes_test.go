//go:build chaos

package chaos

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cauce-stream/cauce/libs/testport"
	"github.com/cauce-stream/cauce/tests/devserver"
)

// stopTimeout bounds how long a program may take to end when asked to.
const stopTimeout = 30 * time.Second

// node is a program of a cluster as a process, which can be started again after its end.
type node struct {
	t     *testing.T
	id    int32
	name  string
	kafka string // address of its Kafka listener; "" for a controller
	args  []string
	log   string // the file that its runs write to
	cmd   *exec.Cmd
	ended chan error
}

// launch starts bin/<name>. What it says is shown when the test fails.
func launch(t *testing.T, id int32, name, kafka string, settings ...string) *node {
	t.Helper()
	dir := t.TempDir()
	n := &node{t: t, id: id, name: name, kafka: kafka, log: filepath.Join(dir, "log")}
	n.args = []string{"--data-dir", filepath.Join(dir, "data"), "--admin", testport.Address(t), "--set", fmt.Sprint("node.id=", id)}
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	if kafka != "" {
		n.args = append(n.args, "--listen", kafka)
	}
	for _, s := range settings {
		n.args = append(n.args, "--set", s)
	}
	n.start()
	t.Cleanup(func() {
		n.signal(syscall.SIGKILL)
		<-n.ended
		if t.Failed() {
			n.show()
		}
	})
	return n
}

func (n *node) start() {
	n.t.Helper()
	binary, err := devserver.Binary()
	if err != nil {
		n.t.Fatal(err)
	}
	log, err := os.OpenFile(n.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		n.t.Fatal(err)
	}
	defer log.Close()
	n.cmd = exec.Command(filepath.Join(filepath.Dir(binary), n.name), n.args...)
	n.cmd.Stdout, n.cmd.Stderr = log, log
	if err := n.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	cmd, ended := n.cmd, make(chan error, 1)
	n.ended = ended
	go func() {
		ended <- cmd.Wait()
		close(ended)
	}()
}

func (n *node) signal(s syscall.Signal) {
	n.t.Helper()
	if err := n.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		n.t.Errorf("%s %d: %v: %v", n.name, n.id, s, err)
	}
}

// kill ends the process as a crash does.
func (n *node) kill() {
	n.t.Helper()
	n.signal(syscall.SIGKILL)
	<-n.ended
}

// stop asks the process to end and demands that it does so cleanly.
func (n *node) stop() {
	n.t.Helper()
	n.signal(syscall.SIGTERM)
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case err := <-n.ended:
		if err != nil {
			n.t.Errorf("%s %d after SIGTERM: %v", n.name, n.id, err)
		}
	case <-timer.C:
		n.t.Errorf("%s %d still runs %v after SIGTERM", n.name, n.id, stopTimeout)
		n.kill()
	}
}

// show prints the end of the process's log.
func (n *node) show() {
	text, err := os.ReadFile(n.log)
	if err != nil {
		n.t.Error(err)
	}
	n.t.Logf("%s %d said:\n%s", n.name, n.id, text[max(0, len(text)-8<<10):])
}

// grep is the lines of the process's log that have a text in them.
func (n *node) grep(text string) (found []string) {
	n.t.Helper()
	all, err := os.ReadFile(n.log)
	if err != nil {
		n.t.Error(err)
	}
	for line := range strings.Lines(string(all)) {
		if strings.Contains(line, text) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// pause waits.
func pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	<-timer.C
}
