//go:build chaos

package chaos

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// diskBytes is the size of a broker's disk.
const diskBytes = 1 << 30

// disk is a file system of its own in a file, which can be stalled and filled without anybody else's suffering from it.
type disk struct{ mount string }

// disksPossible says why there can be none.
func disksPossible() error {
	if os.Geteuid() != 0 {
		return errors.New("mounting needs root")
	}
	for _, program := range []string{"mkfs.ext4", "mount", "umount", "fsfreeze"} {
		if _, err := exec.LookPath(program); err != nil {
			return err
		}
	}
	return nil
}

// newDisk mounts a new file system; it is unmounted with the test.
func newDisk(t *testing.T, mount string) *disk {
	t.Helper()
	image := mount + ".ext4"
	if err := errors.Join(os.MkdirAll(mount, 0o755), os.WriteFile(image, nil, 0o600), os.Truncate(image, diskBytes)); err != nil {
		t.Fatal(err)
	}
	// No reserve: the programs under test run as root, who could write on when the disk is full.
	if err := errors.Join(run("mkfs.ext4", "-q", "-m", "0", image), run("mount", "-o", "loop", image, mount)); err != nil {
		t.Fatal(err)
	}
	d := &disk{mount}
	t.Cleanup(func() {
		_ = d.thaw() // it is not frozen when all went well
		if err := run("umount", mount); err != nil {
			t.Error(err)
		}
	})
	return d
}

func run(program string, args ...string) error {
	if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w: %s", program, args, err, out)
	}
	return nil
}

// freeze has everyone wait who writes.
func (d *disk) freeze() error { return run("fsfreeze", "--freeze", d.mount) }

func (d *disk) thaw() error { return run("fsfreeze", "--unfreeze", d.mount) }

// stutter freezes and thaws until the time is over.
func (d *disk) stutter(length time.Duration) error {
	const frozen, moving = 150 * time.Millisecond, 30 * time.Millisecond
	for end := time.Now().Add(length); time.Now().Before(end); pause(moving) {
		if err := d.freeze(); err != nil {
			return err
		}
		pause(frozen)
		if err := d.thaw(); err != nil {
			return err
		}
	}
	return nil
}

// fill takes every byte that is left until the function returned is called.
func (d *disk) fill() (clear func() error, err error) {
	name := filepath.Join(d.mount, "filler")
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	clear = func() error { return os.Remove(name) }
	end := int64(0)
	for step := int64(diskBytes); step >= 4096; {
		switch err := syscall.Fallocate(int(f.Fd()), 0, end, step); {
		case err == nil:
			end += step
		case errors.Is(err, syscall.ENOSPC):
			step /= 2
		default:
			return nil, errors.Join(fmt.Errorf("%s: %w", name, err), clear())
		}
	}
	return clear, nil
}
