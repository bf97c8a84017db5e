package httpapi

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/cauce-stream/cauce/plugins/connectors/internal/template"
)

// The placeholders of URLs.
const (
	topicName  = "topic"
	keyName    = "key"
	offsetName = "offset"
)

// target is a URL with placeholders in its path and its parameters, where what takes their place is escaped.
type target struct {
	path, query template.Template
	fixed       bool
}

// parseTarget refuses what is no URL, and placeholders in the host.
func parseTarget(text string, names ...string) (target, error) {
	if text == "" {
		return target{}, errors.New("it is required")
	}
	path, query, _ := strings.Cut(text, "?")
	var t target
	var err error
	if t.path, err = template.Parse(path, names...); err != nil {
		return target{}, err
	}
	if query != "" {
		query = "?" + query
	}
	if t.query, err = template.Parse(query, names...); err != nil {
		return target{}, err
	}
	host := path
	if _, after, found := strings.Cut(path, "://"); found {
		host, _, _ = strings.Cut(after, "/")
	}
	if strings.Contains(host, "${") {
		return target{}, errors.New("placeholders may be in the path and in parameters, not in the host")
	}
	t.fixed = t.path.Fixed() && t.query.Fixed()
	sample, err := t.expand(func(string) (string, error) { return "x", nil })
	if err != nil {
		return target{}, err
	}
	if err := checkURL(sample); err != nil {
		return target{}, err
	}
	return t, t.checkPath()
}

// checkPath refuses a path that is not written as it goes over the wire: what values have of slashes would be taken for its own then.
func (t target) checkPath() error {
	full, err := t.expand(func(string) (string, error) { return "/", nil })
	if err != nil {
		return err
	}
	u, err := url.Parse(full)
	if err != nil {
		return err
	}
	if u.RawPath != "" && u.EscapedPath() != u.RawPath || u.RawPath == "" && !t.path.Fixed() {
		return errors.New("its path has characters that have to be percent-encoded, as spaces and all that are not ASCII have")
	}
	return nil
}

func (t target) has(name string) bool { return t.path.Has(name) || t.query.Has(name) }

// expand puts values in their places. In the path none may be empty or dots, with which the URL would be one of something else.
func (t target) expand(value func(name string) (string, error)) (string, error) {
	path, err := t.path.Expand(func(name string) (string, error) {
		text, err := value(name)
		switch {
		case err != nil:
			return "", err
		case text == "":
			return "", errors.New("the path of a URL cannot have an empty text")
		case text == "." || text == "..":
			return "", fmt.Errorf("the path of a URL cannot have %q", text)
		}
		return url.PathEscape(text), nil
	})
	if err != nil {
		return "", err
	}
	query, err := t.query.Expand(func(name string) (string, error) {
		text, err := value(name)
		return url.QueryEscape(text), err
	})
	return path + query, err
}

// escapes are what stands in a configuration for characters that it cannot have.
var escapes = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\r`, "\r", `\t`, "\t")

// withParameter adds a parameter to a URL.
func withParameter(to, name, value string) string {
	separator := "?"
	if strings.Contains(to, "?") {
		separator = "&"
	}
	return to + separator + url.QueryEscape(name) + "=" + url.QueryEscape(value)
}
