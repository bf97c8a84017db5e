package quorum

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"go.etcd.io/raft/v3/raftpb"
)

// A member of the raft group is a node together with the disk that it has its log on. A node that comes back without its
// disk is another member: the group counted on what the first one voted and acknowledged, which the second does not know
// of. So raft's ids are made of the node's, and of a number that is drawn for a new disk; 0 for a quorum of one, and means
// none to raft in no id.

// memberID is the raft id of a node with a disk.
func memberID(node int32, disk uint32) uint64 { return uint64(disk)<<32 | uint64(uint32(node)+1) }

// nodeID is the node of a raft id, -1 of raft's 0.
func nodeID(member uint64) int32 { return int32(uint32(member) - 1) }

// diskOf is the disk of a raft id.
func diskOf(member uint64) uint32 { return uint32(member >> 32) }

// members of a group, learners included, in order of their ids.
func members(conf *raftpb.ConfState) []uint64 {
	all := slices.Concat(conf.GetVoters(), conf.GetLearners())
	slices.Sort(all)
	return all
}

const diskFile = "disk.id"

// readDisk is the number of the disk that dir is on, 0 if none was drawn.
func readDisk(dir string) (uint32, error) {
	text, err := os.ReadFile(filepath.Join(dir, diskFile))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("quorum: %w", err)
	}
	var disk uint32
	if _, err := fmt.Sscanf(string(text), "%08x\n", &disk); err != nil || disk == 0 {
		return 0, fmt.Errorf("quorum: %s: %q is not the number of a disk", filepath.Join(dir, diskFile), text)
	}
	return disk, nil
}

// drawDisk gives dir a number that is on disk for good before anybody hears of it, unless it has one.
func drawDisk(dir string) (uint32, error) {
	disk, err := readDisk(dir)
	if err != nil || disk != 0 {
		return disk, err
	}
	for disk == 0 {
		var b [4]byte
		_, _ = rand.Read(b[:]) // never fails
		disk = binary.BigEndian.Uint32(b[:]) >> 1
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return 0, fmt.Errorf("quorum: %w", err)
	}
	tmp := filepath.Join(dir, diskFile+".new")
	if err := writeFileSynced(tmp, fmt.Appendf(nil, "%08x\n", disk)); err != nil {
		return 0, fmt.Errorf("quorum: %w", err)
	}
	if err := os.Rename(tmp, filepath.Join(dir, diskFile)); err != nil {
		return 0, fmt.Errorf("quorum: %w", err)
	}
	return disk, syncDir(dir)
}

func writeFileSynced(name string, data []byte) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}
