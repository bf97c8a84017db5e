package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Type is the type of a key's value, as Kafka names configuration types.
type Type string

// The types of Kafka's configuration keys.
const (
	String   Type = "string"
	Int      Type = "int"   // 32 bits, signed
	Long     Type = "long"  // 64 bits, signed
	Short    Type = "short" // 16 bits, signed
	Double   Type = "double"
	Boolean  Type = "boolean" // true or false, in any case
	List     Type = "list"    // comma separated; blanks around an element are dropped
	Class    Type = "class"   // the name of a plug-in or of a Java class
	Password Type = "password"
)

// UpdateMode says how a key can change while the process runs.
type UpdateMode string

// The update modes of Kafka's broker configs (KIP-226). The zero value means ReadOnly.
const (
	ReadOnly    UpdateMode = ""             // needs a restart
	PerBroker   UpdateMode = "per-broker"   // may be set for one node
	ClusterWide UpdateMode = "cluster-wide" // may be set for one node or for all of them
)

// String returns the mode as Kafka's documentation spells it.
func (m UpdateMode) String() string {
	if m == ReadOnly {
		return "read-only"
	}
	return string(m)
}

// Key describes one configuration key.
type Key struct {
	Name    string
	Type    Type
	Default string // in text; ignored when Null
	Null    bool   // the key has no default: unset means null
	Doc     string // one or two sentences, units included
	Valid   Validator
	Update  UpdateMode
	// Internal keys are accepted but neither described to clients nor documented.
	Internal bool
}

// Sensitive reports whether values of the key must never be logged, described or printed.
func (k Key) Sensitive() bool { return k.Type == Password }

// Elements splits the text of a list value as Kafka does: at commas, blanks
// around an element dropped, the empty text being the empty list.
func Elements(text string) []string {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	parts := strings.Split(text, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}

// Check reports why text is not a value of the key: wrong type, or refused by
// the key's validator. The error says what would be accepted and does not name the key.
func (k Key) Check(text string) error {
	if err := k.Type.check(text); err != nil {
		return err
	}
	if k.Valid.Check == nil {
		return nil
	}
	return k.Valid.Check(strings.TrimSpace(text))
}

// Normalize returns text in the form in which it is reported: numbers and
// booleans trimmed, booleans in lower case, list elements without blanks and repetitions.
func (k Key) Normalize(text string) string {
	switch k.Type {
	case Boolean:
		return strings.ToLower(strings.TrimSpace(text))
	case List:
		return strings.Join(distinct(Elements(text)), ",")
	case Password:
		return text
	}
	return strings.TrimSpace(text)
}

func distinct(elements []string) []string {
	kept := elements[:0]
	for _, e := range elements {
		if !slices.Contains(kept, e) {
			kept = append(kept, e)
		}
	}
	return kept
}

func (t Type) check(text string) error {
	text = strings.TrimSpace(text)
	switch t {
	case Int:
		return checkInteger(text, 32, math.MinInt32, math.MaxInt32)
	case Long:
		return checkInteger(text, 64, math.MinInt64, math.MaxInt64)
	case Short:
		return checkInteger(text, 16, math.MinInt16, math.MaxInt16)
	case Double:
		if _, err := strconv.ParseFloat(text, 64); err != nil {
			return fmt.Errorf("not a number")
		}
	case Boolean:
		if !strings.EqualFold(text, "true") && !strings.EqualFold(text, "false") {
			return fmt.Errorf("not a boolean (true or false)")
		}
	case List:
		for _, e := range Elements(text) {
			if e == "" {
				return fmt.Errorf("the list has an empty element")
			}
		}
	}
	return nil
}

func checkInteger(text string, bits int, least, most int64) error {
	if _, err := strconv.ParseInt(text, 10, bits); err != nil {
		return fmt.Errorf("not a whole number from %d to %d", least, most)
	}
	return nil
}
