package logdir

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// metaFile says whose directory it is.
const metaFile = "meta.properties"

// meta is the content of meta.properties, version 1 (KIP-858).
type meta struct {
	nodeID    int32
	clusterID string
	dirID     [16]byte
}

// errMismatch says that a directory belongs to another node or cluster.
var errMismatch = errors.New("log directory belongs elsewhere")

func (m meta) encode() []byte {
	return fmt.Appendf(nil, "version=1\ncluster.id=%s\nnode.id=%d\ndirectory.id=%s\n", m.clusterID, m.nodeID, encodeID(m.dirID))
}

func encodeID(id [16]byte) string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// decodeMeta reads meta.properties. A directory without an id, as Kafka wrote them before 3.7, gets the zero id.
func decodeMeta(b []byte) (m meta, err error) {
	values := map[string]string{}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if k, v, ok := strings.Cut(line, "="); ok && line[0] != '#' {
			values[strings.TrimSpace(k)] = strings.TrimSpace(v)
		}
	}
	if values["version"] != "1" {
		return m, fmt.Errorf("%s has version %q, not 1", metaFile, values["version"])
	}
	node, err := strconv.ParseInt(values["node.id"], 10, 32)
	if err != nil {
		return m, fmt.Errorf("%s has node.id %q", metaFile, values["node.id"])
	}
	m.nodeID, m.clusterID = int32(node), values["cluster.id"]
	if s, ok := values["directory.id"]; ok {
		raw, err := base64.RawURLEncoding.DecodeString(s)
		if err != nil || len(raw) != len(m.dirID) {
			return m, fmt.Errorf("%s has directory.id %q", metaFile, s)
		}
		m.dirID = [16]byte(raw)
	}
	return m, nil
}

// identify reads the directory's meta.properties, or makes it one. The error wraps errMismatch when it names another node
// or cluster.
func (d *dir) identify(nodeID int32, clusterID string) error {
	path := filepath.Join(d.path, metaFile)
	m := meta{nodeID: nodeID, clusterID: clusterID}
	raw, err := os.ReadFile(path)
	switch {
	case err == nil:
		if m, err = decodeMeta(raw); err != nil {
			return fmt.Errorf("%s: %w", d.path, err)
		}
		if m.nodeID != nodeID || clusterID != "" && m.clusterID != "" && m.clusterID != clusterID {
			return fmt.Errorf("%s is of node %d in cluster %q, not of node %d in cluster %q: %w", d.path, m.nodeID, m.clusterID, nodeID, clusterID, errMismatch)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	complete := err == nil && m.dirID != [16]byte{} && (m.clusterID != "" || clusterID == "")
	if m.clusterID == "" {
		m.clusterID = clusterID
	}
	if m.dirID == [16]byte{} {
		m.dirID = newID()
	}
	if d.id != m.dirID {
		d.id = m.dirID
	}
	if complete {
		return nil
	}
	return d.fs.WriteFile(path, m.encode(), true)
}

// newID is a random id (UUID version 4). Kafka keeps the first hundred ids for itself.
func newID() (id [16]byte) {
	rand.Read(id[:])
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id
}
