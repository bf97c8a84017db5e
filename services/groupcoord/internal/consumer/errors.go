package consumer

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// refusal is why a request is not done, in words for the client's log. It wraps the code.
type refusal struct {
	code   *kerr.Error
	reason string
}

func (r *refusal) Error() string { return r.reason }
func (r *refusal) Unwrap() error { return r.code }

func refuse(code *kerr.Error, format string, args ...any) error {
	return &refusal{code: code, reason: fmt.Sprintf(format, args...)}
}

// codeOf is the error code for the wire.
func codeOf(err error) int16 {
	var code *kerr.Error
	if errors.As(err, &code) {
		return code.Code
	}
	return kerr.UnknownServerError.Code
}

// RefuseHeartbeat is the response to a consumer's heartbeat that says err.
func RefuseHeartbeat(err error) *kmsg.ConsumerGroupHeartbeatResponse {
	resp := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	reason := err.Error()
	resp.ErrorCode, resp.ErrorMessage = codeOf(err), &reason
	return resp
}

// refuseJoin is the response that says err to a member that is called id.
func refuseJoin(id string, err error) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.ErrorCode, resp.MemberID, resp.Generation = codeOf(err), id, -1
	return resp
}
