// Package security names who speaks to a listener and how the bytes are protected.
package security

import (
	"fmt"
	"strconv"
	"strings"
)

// Principal is an identity as Kafka writes it: a type and a name, "User:alice".
type Principal struct {
	Type string
	Name string
}

// Anonymous is the principal of a connection that did not authenticate, as on a PLAINTEXT listener.
var Anonymous = Principal{Type: "User", Name: "ANONYMOUS"}

// nodeType is the type of a node's principal. Whoever connects to a listener is a User.
const nodeType = "Node"

// Node is the principal of a node that asks for something by itself, on behalf of no client.
func Node(id int32) Principal { return Principal{Type: nodeType, Name: strconv.Itoa(int(id))} }

// IsNode says whether p is a node by itself.
func (p Principal) IsNode() bool { return p.Type == nodeType }

// String gives the form used in ACLs and configuration, "Type:name".
func (p Principal) String() string { return p.Type + ":" + p.Name }

// ParsePrincipal reads "Type:name". The name may hold colons (a distinguished name may).
func ParsePrincipal(s string) (Principal, error) {
	kind, name, found := strings.Cut(s, ":")
	if !found || kind == "" || name == "" {
		return Principal{}, fmt.Errorf("principal %q is not of the form Type:name", s)
	}
	return Principal{Type: kind, Name: name}, nil
}
