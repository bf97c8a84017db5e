package httpapi

import "strings"

// nextLink returns the target of the link whose relation is "next" among Link headers (RFC 8288); "" when there is none.
func nextLink(headers []string) string {
	for _, header := range headers {
		for rest := header; ; {
			_, after, found := strings.Cut(rest, "<")
			if !found {
				break
			}
			target, parameters, ended := strings.Cut(after, ">")
			if !ended {
				break
			}
			next := false
			if next, rest = readParameters(parameters); next {
				return target
			}
		}
	}
	return ""
}

// readParameters reads the parameters of a link up to the comma that ends them. It says whether one is the relation "next".
func readParameters(text string) (next bool, rest string) {
	for {
		text = strings.TrimLeft(text, " \t;")
		if text == "" || text[0] == ',' {
			return next, text
		}
		end := strings.IndexAny(text, "=;,")
		if end < 0 || text[end] != '=' {
			if end < 0 {
				return next, ""
			}
			text = text[end:]
			continue
		}
		name := strings.TrimSpace(text[:end])
		var value string
		value, text = readParameter(strings.TrimLeft(text[end+1:], " \t"))
		if strings.EqualFold(name, "rel") {
			for _, relation := range strings.Fields(value) {
				next = next || strings.EqualFold(relation, "next")
			}
		}
	}
}

// readParameter reads a token or a quoted text.
func readParameter(text string) (value, rest string) {
	if !strings.HasPrefix(text, `"`) {
		if end := strings.IndexAny(text, ";,"); end >= 0 {
			return strings.TrimSpace(text[:end]), text[end:]
		}
		return strings.TrimSpace(text), ""
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '"':
			return b.String(), text[i+1:]
		case text[i] == '\\' && i+1 < len(text):
			i++
		}
		b.WriteByte(text[i])
	}
	return b.String(), ""
}
