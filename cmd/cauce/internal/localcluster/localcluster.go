// Package localcluster runs a cluster on one machine, each node a process of its own that outlives whoever started it, to
// be stopped, killed, frozen and cut off on purpose.
//
// A cluster is a folder: cluster.json says what it is made of and does not change; each node has a folder named by its id
// with its configuration (node.properties), its data, its log, and the process that it runs as (pid). Nothing else is
// kept, so any number of commands may work on one cluster at a time.
package localcluster

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// Cluster is a cluster of one folder.
type Cluster struct {
	dir      string // absolute
	programs string // folder of the services' programs
	plan     plan
}

// plan is the content of cluster.json.
type plan struct {
	ClusterID string `json:"cluster_id"`
	Shape     Shape  `json:"shape"`
	// Network is nil when all nodes are at the loopback address.
	Network *network `json:"network,omitempty"`
	Nodes   []Node   `json:"nodes"`
}

const planFile = "cluster.json"

// Create makes the folder of a new cluster, of which nothing runs yet. programs is the folder that holds cauce-broker and
// the others. The error is fs.ErrExist when dir has a cluster already, or errors.ErrUnsupported when its nodes are to be
// isolated, each in a network namespace, and cannot be.
func Create(dir, programs string, shape Shape, isolated bool) (*Cluster, error) {
	if err := shape.Validate(); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, planFile)); err == nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, planFile), fs.ErrExist)
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	c := &Cluster{dir: dir, programs: programs, plan: plan{ClusterID: base64.RawURLEncoding.EncodeToString(id[:]), Shape: shape}}
	host := func(int) string { return "127.0.0.1" }
	if isolated {
		c.plan.Network, err = newNetwork(hex.EncodeToString(id[:4]), int(id[4])*2, layout(shape, host))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
		}
		host = c.plan.Network.host
	}
	c.plan.Nodes = layout(shape, host)
	if err := c.write(); err != nil {
		return nil, errors.Join(err, c.closeNetwork())
	}
	return c, nil
}

// write puts the cluster's folder on disk.
func (c *Cluster) write() error {
	for _, n := range c.plan.Nodes {
		if err := os.MkdirAll(c.folder(n), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(c.folder(n), "node.properties"), []byte(c.properties(n)), 0o600); err != nil {
			return err
		}
	}
	// Last: with it the cluster exists.
	text, err := json.MarshalIndent(c.plan, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(c.dir, planFile), append(text, '\n'), 0o644)
}

// Open finds the cluster of a folder. The error is fs.ErrNotExist when there is none.
func Open(dir, programs string) (*Cluster, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(dir, planFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no cluster in %s: %w", dir, err)
	}
	if err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir, programs: programs}
	if err := json.Unmarshal(text, &c.plan); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, planFile), err)
	}
	return c, nil
}

// Shape is what the cluster was made of.
func (c *Cluster) Shape() Shape { return c.plan.Shape }

// Nodes of the cluster: brokers first, controllers last.
func (c *Cluster) Nodes() []Node { return c.plan.Nodes }

// Node finds a node by its id.
func (c *Cluster) Node(id int32) (n Node, ok bool) {
	i := slices.IndexFunc(c.plan.Nodes, func(n Node) bool { return n.ID == id })
	if i < 0 {
		return Node{}, false
	}
	return c.plan.Nodes[i], true
}

func (c *Cluster) folder(n Node) string { return filepath.Join(c.dir, strconv.Itoa(int(n.ID))) }

// LogFile is where a node's process writes its log, over all of its runs.
func (c *Cluster) LogFile(n Node) string { return filepath.Join(c.folder(n), "log") }
