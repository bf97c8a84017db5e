package security

import (
	"fmt"
	"strings"
)

// Protocol is a listener's security protocol with the id that Kafka gives it in registrations.
type Protocol int16

// The security protocols of Kafka.
const (
	Plaintext     Protocol = 0
	SSL           Protocol = 1
	SASLPlaintext Protocol = 2
	SASLSSL       Protocol = 3
)

var protocolNames = [...]string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}

// String gives the name used in listener.security.protocol.map.
func (p Protocol) String() string {
	if p < 0 || int(p) >= len(protocolNames) {
		return fmt.Sprintf("Protocol(%d)", int16(p))
	}
	return protocolNames[p]
}

// ParseProtocol reads a name of listener.security.protocol.map, in any case.
func ParseProtocol(name string) (Protocol, error) {
	for i, known := range protocolNames {
		if strings.EqualFold(name, known) {
			return Protocol(i), nil
		}
	}
	return 0, fmt.Errorf("security protocol %q is none of %s", name, strings.Join(protocolNames[:], ", "))
}
