// Package locallog is an internal topic of Connect without Kafka: records in the memory of a standalone worker, and the newest of each key in a file if they
// are to outlive it.
package locallog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/cauce-stream/cauce/services/connect/internal/topiclog"
	"github.com/cauce-stream/cauce/services/connect/internal/topicwriter"
)

// Log is one of the topics. It may be used from any goroutine.
type Log struct {
	file  string // empty for none
	visit func(topiclog.Record)

	mu     sync.Mutex
	next   int64
	order  []string          // keys in the order in which they came up
	newest map[string][]byte // by key, without tombstones
}

// entry is a record in the file.
type entry struct {
	Key   string `json:"key"`
	Value []byte `json:"value"` // base64
}

// Open returns a log that calls visit for each record as it is written, and at once for those that the file has. There need not be a file yet.
func Open(file string, visit func(topiclog.Record)) (*Log, error) {
	l := &Log{file: file, visit: visit, newest: map[string][]byte{}}
	if file == "" {
		return l, nil
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, err
	}
	var entries []entry
	if err := json.Unmarshal(text, &entries); err != nil {
		return nil, fmt.Errorf("%s: not what a standalone worker of Cauce has written: %w", file, err)
	}
	for _, e := range entries {
		l.add([]byte(e.Key), e.Value)
	}
	return l, nil
}

// add takes a record up and shows it. mu is held, or nobody else knows the log.
func (l *Log) add(key, value []byte) {
	if l.file != "" {
		l.keep(string(key), value)
	}
	l.visit(topiclog.Record{Offset: l.next, TimestampMs: time.Now().UnixMilli(), Key: key, Value: value})
	l.next++
}

// keep holds the newest value of a key for the file, until there is a tombstone.
func (l *Log) keep(key string, value []byte) {
	_, known := l.newest[key]
	switch {
	case value == nil && known:
		delete(l.newest, key)
		l.order = slices.DeleteFunc(l.order, func(k string) bool { return k == key })
		return
	case value == nil:
		return
	case !known:
		l.order = append(l.order, key)
	}
	l.newest[key] = value
}

// Write appends records. With a file they are in it when Write returns.
func (l *Log) Write(_ context.Context, records []topicwriter.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range records {
		l.add(r.Key, r.Value)
	}
	if l.file == "" || len(records) == 0 {
		return nil
	}
	return l.save()
}

// save replaces the file, so that it is whole whatever happens.
func (l *Log) save() error {
	entries := []entry{}
	for _, key := range l.order {
		entries = append(entries, entry{key, l.newest[key]})
	}
	text, err := json.Marshal(entries)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(l.file), filepath.Base(l.file)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), l.file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// Run does nothing until ctx ends: records are shown as they are written.
func (l *Log) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// ReadToEnd does nothing: all has been shown.
func (l *Log) ReadToEnd(context.Context) error { return nil }

// Claim does nothing: nobody else writes.
func (l *Log) Claim(context.Context) error { return nil }

// Close does nothing: all is in the file.
func (l *Log) Close() {}
