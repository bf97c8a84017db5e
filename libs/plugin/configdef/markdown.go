package configdef

import (
	"fmt"
	"strings"
)

// Markdown returns the definition as a table for a page of documentation, with an empty line before it.
func (d Definition) Markdown() string {
	if len(d) == 0 {
		return "\nNo keys of its own.\n"
	}
	var b strings.Builder
	b.WriteString("\n| key | type | default | values | importance | what it is |\n|---|---|---|---|---|---|\n")
	for _, k := range d {
		standard := "–"
		switch {
		case k.Required:
			standard = "required"
		case k.Default != nil:
			standard = "`" + strings.ReplaceAll(*k.Default, "|", `\|`) + "`" // it would end the cell
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", k.Name, strings.ToLower(string(k.Type)), standard, k.Valid.markdown(), strings.ToLower(string(k.Importance)), k.Doc)
	}
	return b.String()
}

func (r *Rule) markdown() string {
	var parts []string
	switch {
	case r.Min != nil && r.Max != nil:
		parts = append(parts, fmt.Sprintf("%.0f to %.0f", *r.Min, *r.Max))
	case r.Min != nil:
		parts = append(parts, fmt.Sprintf("at least %.0f", *r.Min))
	case r.Max != nil:
		parts = append(parts, fmt.Sprintf("at most %.0f", *r.Max))
	}
	if r.OneOf != nil {
		parts = append(parts, "`"+strings.Join(r.OneOf, "`, `")+"`")
	}
	if r.NonEmpty {
		parts = append(parts, "not empty")
	}
	if r.Pattern != "" {
		parts = append(parts, "like `"+r.Pattern+"`")
	}
	return strings.Join(parts, ", ")
}
