package anywhere

import (
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/metadata"
)

// The kinds of coordinators.
const (
	groupCoordinator       = 0
	transactionCoordinator = 1
	shareCoordinator       = 2
)

// FindCoordinator (key 10), versions 0 to 6.
//
//	0   groups
//	1   transactions too, and a message
//	4   several keys at once (KIP-699)
//	6   share groups, by "group:topic id:partition" (KIP-932)
//
// No coordinators run yet, so that every valid key has none available, which clients take as a reason to ask again.
func (h *handlers) findCoordinator(_ *server.Request, q *kmsg.FindCoordinatorRequest) kmsg.Response {
	resp := kmsg.NewPtrFindCoordinatorResponse()
	if q.Version < 4 {
		err := coordinatorFault(q, q.CoordinatorKey)
		resp.ErrorCode, resp.ErrorMessage, resp.NodeID, resp.Port = err.Code, text(err.Description), -1, -1
		return resp
	}
	for _, key := range q.CoordinatorKeys {
		err := coordinatorFault(q, key)
		c := kmsg.NewFindCoordinatorResponseCoordinator()
		c.Key, c.ErrorCode, c.ErrorMessage, c.NodeID, c.Port = key, err.Code, text(err.Description), -1, -1
		resp.Coordinators = append(resp.Coordinators, c)
	}
	return resp
}

// coordinatorFault is why a key has no coordinator.
func coordinatorFault(q *kmsg.FindCoordinatorRequest, key string) *kerr.Error {
	switch q.CoordinatorType {
	case groupCoordinator, transactionCoordinator:
		return kerr.CoordinatorNotAvailable
	case shareCoordinator:
		if q.Version >= 6 && validShareKey(key) {
			return kerr.CoordinatorNotAvailable
		}
	}
	return kerr.InvalidRequest
}

// validShareKey says whether a key has the form "group:topic id:partition".
func validShareKey(key string) bool {
	parts := strings.Split(key, ":")
	if len(parts) != 3 || parts[0] == "" {
		return false
	}
	_, err := metadata.ParseTopicID(parts[1])
	if err == nil {
		_, err = strconv.ParseUint(parts[2], 10, 31)
	}
	return err == nil
}
