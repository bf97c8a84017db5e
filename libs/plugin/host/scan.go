package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/plugin/pluginpb"
)

const (
	// maxFiles bounds how many programs are taken from plugin.path.
	maxFiles = 64
	// parallelStarts bounds how many programs a scan starts at once, and how many tasks start at once.
	parallelStarts = 4
)

// scanNowAndThen finds new and removed programs until the host ends.
func (h *Host) scanNowAndThen() {
	ticker := time.NewTicker(h.config.ScanInterval)
	defer ticker.Stop()
	for {
		if err := h.scan(h.ctx); err != nil && h.ctx.Err() == nil {
			h.log.Warn("plugin.path cannot be looked through", zap.Error(err))
		}
		select {
		case <-ticker.C:
		case <-h.ctx.Done():
			return
		}
	}
}

// Refresh looks through the folders now, and returns when each program has started, or failed to. List tells the outcome.
func (h *Host) Refresh(ctx context.Context) error { return h.scan(ctx) }

// scan looks through the folders and learns what new and changed programs offer. One scan runs at a time.
func (h *Host) scan(ctx context.Context) error {
	select {
	case <-h.scanning:
		defer func() { h.scanning <- struct{}{} }()
	case <-ctx.Done():
		return ctx.Err()
	}
	files, err := h.refresh()
	slots := make(chan struct{}, parallelStarts)
	var learning sync.WaitGroup
	for _, f := range files {
		if !f.unknown() {
			continue
		}
		slots <- struct{}{}
		learning.Go(func() {
			defer func() { <-slots }()
			if p, err := f.acquire(ctx); err == nil { // a failure is kept and logged by the file
				f.release(p)
			}
		})
	}
	learning.Wait()
	return err
}

// unknown says whether the file as it is now was never started, and has not failed to.
func (f *file) unknown() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.checkIdentity()
	return f.running == nil && f.fault == nil && !f.unwanted
}

// refresh takes in new files and unloads those that are gone. The known files stay when a folder cannot be read.
func (h *Host) refresh() ([]*file, error) {
	paths, err := h.programs()
	h.mu.Lock()
	known := h.files
	h.mu.Unlock()
	if err != nil {
		return known, err
	}
	var files []*file
	for _, path := range paths {
		i := slices.IndexFunc(known, func(f *file) bool { return f.path == path })
		if i >= 0 {
			files = append(files, known[i])
			continue
		}
		files = append(files, &file{host: h, path: path, log: h.log.Named(filepath.Base(path)), again: make(chan struct{}, 1)})
	}
	h.mu.Lock()
	h.files = files
	h.mu.Unlock()
	for _, f := range known {
		if !slices.Contains(files, f) {
			f.log.Info("plugin is gone, unloading it")
			f.unload()
		}
	}
	return files, nil
}

// programs lists the executable files of the folders.
func (h *Host) programs() ([]string, error) {
	var paths []string
	for _, place := range h.config.Path {
		info, err := os.Stat(place)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		candidates := []string{place}
		if info.IsDir() {
			if candidates, err = visible(place); err != nil {
				return nil, err
			}
		}
		for _, path := range candidates {
			info, err := os.Stat(path)
			if err != nil || !executable(info) || slices.Contains(paths, path) {
				continue
			}
			if len(paths) == maxFiles {
				h.log.Warn("too many plugins, leaving out this one and those that follow", zap.String("path", path), zap.Int("most", maxFiles))
				return paths, nil
			}
			paths = append(paths, path)
		}
	}
	return paths, nil
}

// visible lists the entries of a folder whose names do not begin with a dot.
func visible(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), ".") {
			paths = append(paths, filepath.Join(folder, entry.Name()))
		}
	}
	return paths, nil
}

// find returns the file that offers a plugin; it looks through the folders when none is known to.
func (h *Host) find(ctx context.Context, key offerKey) (*file, offer, error) {
	if f, o := h.offering(key); f != nil {
		return f, o, nil
	}
	if err := h.scan(ctx); err != nil {
		return nil, offer{}, fmt.Errorf("looking for it in plugin.path: %w", err)
	}
	if f, o := h.offering(key); f != nil {
		return f, o, nil
	}
	return nil, offer{}, h.notFound(key.kind)
}

func (h *Host) offering(key offerKey) (*file, offer) {
	for _, f := range h.snapshot() {
		if o, ok := f.offering(key); ok {
			return f, o
		}
	}
	return nil, offer{}
}

func (h *Host) snapshot() []*file {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.files
}

// notFound says what there is instead, and which programs could not be asked.
func (h *Host) notFound(kinds ...pluginpb.Kind) error {
	var names, faults []string
	for _, f := range h.snapshot() {
		f.mu.Lock()
		for _, o := range f.offers {
			if slices.Contains(kinds, o.kind) && !slices.Contains(names, o.name) {
				names = append(names, o.name)
			}
		}
		if f.fault != nil {
			faults = append(faults, f.fault.Error())
		}
		f.mu.Unlock()
	}
	text := fmt.Sprintf("no program in plugin.path (%s) offers it", strings.Join(h.config.Path, ","))
	if len(names) > 0 {
		text += "; there are " + strings.Join(names, ", ")
	}
	if len(faults) > 0 {
		text += "; " + strings.Join(faults, "; ")
	}
	return errors.New(text)
}
