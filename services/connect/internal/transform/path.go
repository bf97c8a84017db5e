package transform

import (
	"fmt"
	"strings"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/libs/plugin/data"
)

const fieldSyntax = "field.syntax.version"

var fieldSyntaxKey = configdef.Key{
	Name: fieldSyntax, Type: configdef.String, Default: new("V1"), Importance: configdef.High, Valid: configdef.Rule{OneOf: []string{"V1", "V2"}, IgnoreCase: true},
	Doc: "V1 knows fields of the key or value itself. In V2 a dot leads to a field within a field (KIP-821); names that have dots stand in backticks.",
}

// path is the way to a field.
type path struct {
	// text is how it was written.
	text  string
	steps []string
}

func newPath(text string, v configdef.Values) (path, error) {
	if strings.EqualFold(v.String(fieldSyntax), "V1") {
		return path{text, []string{text}}, nil
	}
	p := path{text: text}
	for rest := text; ; {
		step, after, err := firstStep(rest)
		if err != nil {
			return p, fmt.Errorf("field path %q: %w", text, err)
		}
		p.steps = append(p.steps, step)
		if after == "" {
			return p, nil
		}
		rest = after[1:]
	}
}

// firstStep returns the first step, and what follows, its dot included.
func firstStep(text string) (step, after string, err error) {
	quoted, ok := strings.CutPrefix(text, "`")
	if !ok {
		if i := strings.IndexByte(text, '.'); i >= 0 {
			return text[:i], text[i:], nil
		}
		return text, "", nil
	}
	for i := range len(quoted) {
		if quoted[i] == '`' && (i == 0 || quoted[i-1] != '\\') && (i+1 == len(quoted) || quoted[i+1] == '.') {
			return strings.ReplaceAll(quoted[:i], "\\`", "`"), quoted[i+1:], nil
		}
	}
	return "", "", fmt.Errorf("a backtick is not closed")
}

// schema returns the schema of the field, nil if there is none of its name.
func (p path) schema(s *data.Schema) (*data.Schema, error) {
	for _, step := range p.steps {
		if s.Type != data.TypeStruct {
			return nil, fmt.Errorf("path %q leads through a %s", p.text, s.Type)
		}
		i := s.FieldIndex(step)
		if i < 0 {
			return nil, nil
		}
		s = s.Fields[i].Schema
	}
	return s, nil
}

// in returns the value of the field in a struct; nil where a struct on the way is.
func (p path) in(v any, replace bool) any {
	for _, step := range p.steps {
		s, ok := v.(*data.Struct)
		if !ok {
			return nil
		}
		v = fieldValue(s, s.Schema.FieldIndex(step), replace)
	}
	return v
}

// inMap returns the value of the field in a map; nil where a map on the way lacks it.
func (p path) inMap(m map[any]any) (any, error) {
	v := any(m)
	for _, step := range p.steps {
		if v == nil {
			return nil, nil
		}
		m, ok := v.(map[any]any)
		if !ok {
			return nil, fmt.Errorf("path %q leads through a value of type %s", p.text, data.Kind(v))
		}
		v = m[step]
	}
	return v, nil
}
