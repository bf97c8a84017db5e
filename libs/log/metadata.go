package log

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"
)

// metadataFile names the topic's id, as the lines "version: 0" and "topic_id: " with the id in URL-safe base64.
const metadataFile = "partition.metadata"

func encodeMetadata(id TopicID) []byte {
	return fmt.Appendf(nil, "version: 0\ntopic_id: %s", base64.RawURLEncoding.EncodeToString(id[:]))
}

var errBadMetadata = errors.New("malformed partition.metadata")

// decodeMetadata reads the file. The error wraps errBadMetadata.
func decodeMetadata(b []byte) (id TopicID, err error) {
	values := map[string]string{}
	for line := range strings.Lines(string(b)) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), ":")
		if ok {
			values[key] = strings.TrimSpace(value)
		}
	}
	raw, err := base64.RawURLEncoding.DecodeString(values["topic_id"])
	if err != nil || len(raw) != len(id) || values["version"] != "0" {
		return id, fmt.Errorf("version %q, topic_id %q: %w", values["version"], values["topic_id"], errBadMetadata)
	}
	return TopicID(raw), nil
}

// loadMetadata compares the topic id with that of the folder, or gives the folder one.
func (l *Log) loadMetadata(exists bool) error {
	if exists {
		raw, err := os.ReadFile(filepath.Join(l.dir, metadataFile))
		if err != nil {
			return err
		}
		id, err := decodeMetadata(raw)
		if err == nil {
			return l.agreeOn(id)
		}
		l.logger.Warn("ignoring the topic id of a folder", zap.String("dir", l.dir), zap.Error(err))
	}
	return l.writeMetadata()
}

// SetTopicID gives a folder that has none its topic's id. The error wraps kerr.InconsistentTopicID when it has another.
func (l *Log) SetTopicID(id TopicID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id == (TopicID{}) || id == l.topicID {
		return nil
	}
	if l.topicID != (TopicID{}) {
		return fmt.Errorf("%s holds topic id %x, not %x: %w", l.dir, l.topicID, id, kerr.InconsistentTopicID)
	}
	l.topicID = id
	if err := l.writeMetadata(); err != nil {
		return l.fail("topic id", err)
	}
	return nil
}

func (l *Log) writeMetadata() error {
	if l.topicID == (TopicID{}) {
		return nil
	}
	// It reaches the disk with the first flush, before any record counts as flushed.
	return l.fs.WriteFile(filepath.Join(l.dir, metadataFile), encodeMetadata(l.topicID), false)
}

func (l *Log) agreeOn(id TopicID) error {
	if l.topicID != (TopicID{}) && l.topicID != id {
		return fmt.Errorf("%s holds topic id %x, not %x: %w", l.dir, id, l.topicID, kerr.InconsistentTopicID)
	}
	l.topicID = id
	return nil
}

// syncMetadata brings partition.metadata to the disk.
func (l *Log) syncMetadata() error {
	f, err := os.OpenFile(filepath.Join(l.dir, metadataFile), os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(l.fs.Sync(f), f.Close())
}
