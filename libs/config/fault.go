package config

import "strings"

// Fault is one reason why a configuration is refused.
type Fault struct {
	Name   string // the key as it was written
	Value  string // the refused value, "[hidden]" for a secret; "" when the name itself is refused
	Where  string // "server.properties:12", "env CAUCE_NODE_ID", "--set"; may be empty
	Reason string // what is wrong and what would be accepted
}

const hidden = "[hidden]"

func newFault(k Key, value string, err error) *Fault {
	if k.Sensitive() {
		value = hidden
	}
	return &Fault{Name: k.Name, Value: value, Reason: err.Error()}
}

// Error returns the fault in one line: place, key, value, reason.
func (f *Fault) Error() string {
	var b strings.Builder
	if f.Where != "" {
		b.WriteString(f.Where + ": ")
	}
	b.WriteString(f.Name)
	if f.Value != "" {
		b.WriteString("=" + f.Value)
	}
	b.WriteString(": " + f.Reason)
	return b.String()
}

// Faults is every reason why a configuration is refused, in the order of the layers.
type Faults []*Fault

// Error returns one fault a line.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.Error()
	}
	return "invalid configuration:\n  " + strings.Join(lines, "\n  ")
}
