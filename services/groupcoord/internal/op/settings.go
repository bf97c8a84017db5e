package op

import (
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
)

// Settings are the node's effective broker keys and the overrides of single groups, as of one image.
type Settings struct {
	// Broker are the effective broker keys.
	Broker configkeys.Values
	// Group gives the effective group keys (consumer.session.timeout.ms …) of one group.
	Group func(group string) map[string]string
}
