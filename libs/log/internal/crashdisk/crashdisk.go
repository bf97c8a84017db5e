// Package crashdisk shows what a disk may hold after the machine lost power: everything that was synced, and of the rest
// whatever the seed says. It follows the changes that a disk.FS makes to a real folder and can rebuild the folder
// elsewhere as a crash at this moment might leave it.
//
// The rules are those of a journaling file system that orders only what it must: the entries of one folder change in
// order, so that a crash keeps some first of them; the changes of one file do too, except that pages of a write may be
// missing, which then read as zeros or as what was there before; different files and folders are independent.
package crashdisk

import (
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/cauce-stream/cauce/libs/log/internal/disk"
)

const pageSize = 4096

// Disk follows one folder. FS is what has to make the changes in it.
type Disk struct {
	disk.FS
	root string

	mu    sync.Mutex
	names map[string]*node // as of now, by path relative to root
	saved map[string]*node // as on the disk
	dirs  map[string][]entryOp
	byID  map[uint64]*node

	// Refuse, when set, is asked before every change and may return an error to fail it with.
	Refuse func(disk.Op) error
}

// node is a file (or a folder, which has no content).
type node struct {
	dir     bool
	content []byte   // as on the disk
	pending []change // since
}

// change is a write, or a truncation when data is nil.
type change struct {
	offset int64
	data   []byte
}

// entryOp is one change of a folder's entries: path now names node, or nothing, and from nothing.
type entryOp struct {
	path string
	node *node
	from string
}

func (e entryOp) apply(names map[string]*node) {
	delete(names, e.from)
	if e.node == nil {
		delete(names, e.path)
	} else {
		names[e.path] = e.node
	}
}

// New follows the folder root, which must be empty.
func New(root string) *Disk {
	d := &Disk{root: root, names: map[string]*node{}, saved: map[string]*node{}, dirs: map[string][]entryOp{}, byID: map[uint64]*node{}}
	d.Hook = d.observe
	return d
}

func (d *Disk) rel(path string) string {
	r, err := filepath.Rel(d.root, path)
	if err != nil || strings.HasPrefix(r, "..") {
		panic("change outside the folder: " + path)
	}
	return r
}

func (d *Disk) enter(e entryOp) {
	e.apply(d.names)
	parent := filepath.Dir(e.path)
	d.dirs[parent] = append(d.dirs[parent], e)
}

func inode(f *os.File) uint64 {
	info, err := f.Stat()
	if err != nil {
		panic(err)
	}
	return info.Sys().(*syscall.Stat_t).Ino
}

func (d *Disk) observe(op disk.Op) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.Refuse != nil {
		if err := d.Refuse(op); err != nil {
			return err
		}
	}
	switch op.Kind {
	case disk.Create:
		path := d.rel(op.Path)
		if n := d.names[path]; n != nil {
			n.pending = append(n.pending, change{})
			return nil
		}
		n := &node{}
		d.byID[inode(op.File)] = n
		d.enter(entryOp{path: path, node: n})
	case disk.Write:
		n := d.byID[inode(op.File)]
		n.pending = append(n.pending, change{op.Offset, slices.Clone(op.Data)})
	case disk.Truncate:
		n := d.byID[inode(op.File)]
		n.pending = append(n.pending, change{offset: op.Offset})
	case disk.Sync:
		n := d.byID[inode(op.File)]
		n.sync()
		return disk.Skip
	case disk.Mkdir:
		if path := d.rel(op.Path); path != "." && d.names[path] == nil {
			d.enter(entryOp{path: path, node: &node{dir: true}})
		}
	case disk.Rename:
		d.rename(d.rel(op.Path), d.rel(op.To), op)
	case disk.Remove:
		path := d.rel(op.Path)
		for name := range d.names {
			if name == path || strings.HasPrefix(name, path+"/") {
				d.enter(entryOp{path: name})
			}
		}
	case disk.SyncDir:
		path := d.rel(op.Path)
		for _, e := range d.dirs[path] {
			e.apply(d.saved)
		}
		delete(d.dirs, path)
		return disk.Skip
	case disk.SyncAll:
		d.saved = maps.Clone(d.names)
		clear(d.dirs)
		for _, n := range d.names {
			n.sync()
		}
		return disk.Skip
	}
	return nil
}

func (n *node) sync() {
	for _, c := range n.pending {
		n.content = c.apply(n.content, nil)
	}
	n.pending = nil
}

func (d *Disk) rename(from, to string, op disk.Op) {
	n := d.names[from]
	if n == nil {
		if _, err := os.Lstat(op.Path); errors.Is(err, os.ErrNotExist) {
			return
		}
		panic("rename of a file that was not made here: " + from)
	}
	if n.dir {
		panic("folders are not renamed in crash tests: " + from)
	}
	d.enter(entryOp{path: to, node: n, from: from})
}

// apply makes the change in content. With a rng some pages of a write are left out.
func (c change) apply(content []byte, rng *rand.Rand) []byte {
	if c.data == nil {
		if int64(len(content)) > c.offset {
			return content[:c.offset:c.offset]
		}
		return append(content, make([]byte, c.offset-int64(len(content)))...)
	}
	if end := c.offset + int64(len(c.data)); int64(len(content)) < end {
		content = append(content[:len(content):len(content)], make([]byte, end-int64(len(content)))...)
	} else {
		content = slices.Clone(content)
	}
	for at := 0; at < len(c.data); {
		n := min(len(c.data)-at, pageSize-int((c.offset+int64(at))%pageSize))
		if rng == nil || rng.IntN(2) == 0 {
			copy(content[c.offset+int64(at):], c.data[at:at+n])
		}
		at += n
	}
	return content
}

// Crash makes the folder to what a crash now might leave, and returns a Disk that follows it. This one stays as it is.
func (d *Disk) Crash(to string, rng *rand.Rand) (*Disk, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	names := d.survivors(rng)
	next := New(to)
	paths := make([]string, 0, len(names))
	for path := range names {
		paths = append(paths, path)
	}
	slices.Sort(paths) // folders come before what they hold
	for _, path := range paths {
		n := names[path]
		full := filepath.Join(to, path)
		if parent := filepath.Dir(path); parent != "." && next.saved[parent] == nil {
			continue // its folder did not survive
		}
		if n.dir {
			if err := os.Mkdir(full, 0o755); err != nil {
				return nil, err
			}
			next.adopt(path, &node{dir: true})
			continue
		}
		content := n.survivor(rng)
		f, err := os.Create(full)
		if err != nil {
			return nil, err
		}
		_, err = f.Write(content)
		saved := &node{content: content}
		next.byID[inode(f)] = saved
		next.adopt(path, saved)
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
	}
	return next, nil
}

func (d *Disk) adopt(path string, n *node) { d.names[path], d.saved[path] = n, n }

// survivors is the entries of all folders after a crash: those synced and the first few changes since.
func (d *Disk) survivors(rng *rand.Rand) map[string]*node {
	names := map[string]*node{}
	for path, n := range d.saved {
		names[path] = n
	}
	dirs := make([]string, 0, len(d.dirs))
	for dir := range d.dirs {
		dirs = append(dirs, dir)
	}
	slices.Sort(dirs)
	for _, dir := range dirs {
		ops := d.dirs[dir]
		for _, e := range ops[:rng.IntN(len(ops)+1)] {
			e.apply(names)
		}
	}
	return names
}

// survivor is the content of a file after a crash.
func (n *node) survivor(rng *rand.Rand) []byte {
	content := slices.Clone(n.content)
	switch rng.IntN(4) {
	case 0: // nothing since the last sync
		return content
	case 1: // everything
		for _, c := range n.pending {
			content = c.apply(content, nil)
		}
		return content
	}
	lossy := rng
	if rng.IntN(2) == 0 {
		lossy = nil
	}
	if len(n.pending) == 0 {
		return content
	}
	k := rng.IntN(len(n.pending) + 1)
	for i, c := range n.pending[:k] {
		if i == k-1 && len(c.data) > 0 {
			c.data = c.data[:rng.IntN(len(c.data)+1)] // torn
			if len(c.data) == 0 {
				break
			}
		}
		content = c.apply(content, lossy)
	}
	return content
}
