package tempdir

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const (
	prefix = "cauce-owned-"
	// ownerVariable has the test's program own a folder until it is killed.
	ownerVariable = "TEMPDIR_TEST_OWNER"
)

func TestMain(m *testing.M) {
	if os.Getenv(ownerVariable) == "" {
		os.Exit(m.Run())
	}
	d, err := New(prefix, func(err error) { panic(err) })
	if err != nil {
		panic(err)
	}
	fmt.Println(d.Path)
	_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed, or the test has ended
}

// owner starts a process that owns a folder.
func owner(t *testing.T) (folder string, kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), ownerVariable+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	t.Cleanup(kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line), kill
}

func newDir(t *testing.T) *Dir {
	t.Helper()
	d, err := New(prefix, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestFoldersOfKilledProcessesAreRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	dead, kill := owner(t)
	alive, _ := owner(t)
	if err := os.WriteFile(filepath.Join(dead, "left"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	kill()
	d := newDir(t)
	if exists(dead) {
		t.Errorf("%s of a process that was killed is still there", dead)
	}
	if !exists(alive) {
		t.Errorf("%s of a process that runs was removed", alive)
	}
	if err := d.Remove(); err != nil || exists(d.Path) {
		t.Errorf("Remove: %v", err)
	}
}

func TestOnlyFoldersOfTheKindAreRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var kept []string
	for _, name := range []string{"cauce-other-1", "elsewhere"} {
		kept = append(kept, filepath.Join(os.TempDir(), name))
		if err := os.Mkdir(kept[len(kept)-1], 0o700); err != nil {
			t.Fatal(err)
		}
	}
	link, file := filepath.Join(os.TempDir(), prefix+"link"), filepath.Join(os.TempDir(), prefix+"file")
	if err := os.Symlink(kept[0], link); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	kept = append(kept, link, file)
	if os.Geteuid() == 0 {
		others := filepath.Join(os.TempDir(), prefix+"others")
		if err := os.Mkdir(others, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(others, 12345, 12345); err != nil {
			t.Fatal(err)
		}
		kept = append(kept, others)
	}
	d := newDir(t)
	for _, path := range kept {
		if !exists(path) {
			t.Errorf("%s was removed", path)
		}
	}
	if err := d.Remove(); err != nil {
		t.Error(err)
	}
}

// TestManyAtOnce has makers take each other's folders, between their making and their locking, for ones left behind.
func TestManyAtOnce(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var makers sync.WaitGroup
	for range 8 {
		makers.Go(func() {
			for range 50 {
				d, err := New(prefix, func(err error) { t.Error(err) })
				if err != nil {
					t.Error(err)
					return
				}
				if !exists(d.Path) {
					t.Errorf("%s was removed while it was owned", d.Path)
				}
				if err := d.Remove(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	makers.Wait()
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
