// Package ident is names in SQL: quoted, taken apart, and put together.
package ident

import (
	"errors"
	"strings"
)

// Quote returns an identifier as SQL has it.
func Quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// Literal returns a text as SQL has it.
func Literal(text string) string {
	quoted := "'" + strings.ReplaceAll(text, "'", "''") + "'"
	if strings.Contains(text, `\`) {
		return " E" + strings.ReplaceAll(quoted, `\`, `\\`)
	}
	return quoted
}

// Name is the name of a table: itself alone, after its schema, or after its database and schema.
type Name []string

// ParseName takes a name apart at its dots. Parts may be quoted as in SQL.
func ParseName(text string) (Name, error) {
	var parts Name
	for rest, more := text, true; more; {
		var part string
		if strings.HasPrefix(rest, `"`) {
			var err error
			if part, rest, err = unquote(rest); err != nil {
				return nil, err
			}
			if rest != "" && rest[0] != '.' {
				return nil, errors.New("table name " + text + ": a dot is wanted after a quoted part")
			}
			rest, more = strings.TrimPrefix(rest, "."), rest != ""
		} else {
			part, rest, more = strings.Cut(rest, ".")
		}
		if part == "" {
			return nil, errors.New("table name " + text + " has an empty part")
		}
		parts = append(parts, part)
	}
	if len(parts) > 3 {
		return nil, errors.New("table name " + text + " has more than three parts")
	}
	return parts, nil
}

// unquote returns the identifier at the beginning of a text, and what follows it.
func unquote(text string) (name, rest string, err error) {
	for i := 1; i < len(text); i++ {
		if text[i] != '"' {
			continue
		}
		if i+1 < len(text) && text[i+1] == '"' {
			i++
			continue
		}
		return strings.ReplaceAll(text[1:i], `""`, `"`), text[i+1:], nil
	}
	return "", "", errors.New("table name: a quote of " + text + " is not closed")
}

// Table is the name without schema and database.
func (n Name) Table() string { return n[len(n)-1] }

// SQL is the name as SQL has it.
func (n Name) SQL() string {
	quoted := make([]string, len(n))
	for i, part := range n {
		quoted[i] = Quote(part)
	}
	return strings.Join(quoted, ".")
}

// String is the name as people write it.
func (n Name) String() string { return strings.Join(n, ".") }

// ToLower returns the name that SQL means by the name without quotes.
func (n Name) ToLower() Name {
	lower := make(Name, len(n))
	for i, part := range n {
		lower[i] = strings.ToLower(part)
	}
	return lower
}
