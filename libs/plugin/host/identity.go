package host

import (
	"os"
	"syscall"
)

func identify(path string) (identity, error) {
	info, err := os.Stat(path)
	if err != nil {
		return identity{}, err
	}
	id := identity{size: info.Size(), modified: info.ModTime()}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		id.device, id.inode = uint64(stat.Dev), stat.Ino
	}
	return id, nil
}
