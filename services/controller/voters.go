package controller

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/services/controller/internal/quorum"
)

// directoryID is a disk's number as Kafka's clients see it; they take none for a directory that is not known.
func directoryID(disk uint32) (id [16]byte) {
	binary.BigEndian.PutUint32(id[12:], disk)
	return id
}

// addVoter answers AddRaftVoter, key 80, versions 0 and 1 (KIP-853). The controller learns the log before it votes, and the
// answer does not wait for that: the quorum's description tells. A directory id of zeros is that of the disk with which the
// controller waits to be added; addresses are those of controller.peers.
//
// A change of the voters ends the reign, so that nodes send the request again: it is answered the second time.
func (r *reign) addVoter(req *kmsg.AddRaftVoterRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.AddRaftVoterResponse)
	err := r.ofThisCluster(req.ClusterID)
	if err == nil {
		disk := binary.BigEndian.Uint32(req.VoterDirectoryID[12:])
		err = r.s.quorum.Add(context.Background(), req.VoterID, disk) // answered between two writes of the log, or when the quorum stops
	}
	resp.ErrorCode, resp.ErrorMessage, err = voterAnswer(err)
	return resp, err
}

// removeVoter answers RemoveRaftVoter, key 81, version 0 (KIP-853). One that is no voter counts as removed: the request may
// be the second of its kind, see addVoter. A directory id of zeros is that of any disk.
func (r *reign) removeVoter(req *kmsg.RemoveRaftVoterRequest) (kmsg.Response, error) {
	resp := req.ResponseKind().(*kmsg.RemoveRaftVoterResponse)
	err := r.ofThisCluster(req.ClusterID)
	if err == nil {
		disk := binary.BigEndian.Uint32(req.VoterDirectoryID[12:])
		err = r.s.quorum.Remove(context.Background(), req.VoterID, disk)
	}
	if errors.Is(err, quorum.ErrNotMember) {
		err = nil
	}
	resp.ErrorCode, resp.ErrorMessage, err = voterAnswer(err)
	return resp, err
}

func (r *reign) ofThisCluster(id *string) error {
	if id != nil && *id != r.image.ClusterID() {
		return kerr.InconsistentClusterID
	}
	return nil
}

// voterAnswer is what a response says of an error, unless it is one after which another controller must be asked.
func voterAnswer(err error) (code int16, message *string, again error) {
	switch {
	case err == nil:
		return 0, nil, nil
	case errors.Is(err, quorum.ErrNotLeader), errors.Is(err, quorum.ErrStopped):
		return 0, nil, err
	case errors.Is(err, kerr.InconsistentClusterID):
		return kerr.InconsistentClusterID.Code, nil, nil
	}
	text := err.Error()
	return kerr.InvalidRequest.Code, &text, nil
}
