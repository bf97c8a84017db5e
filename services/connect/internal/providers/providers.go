// Package providers resolves ${provider:path:key} in configurations: what should not stand there is looked up when a connector is started or
// checked (KIP-297, KIP-421). They are Kafka's providers, under their Java class names: FileConfigProvider, DirectoryConfigProvider and
// EnvVarConfigProvider.
package providers

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cauce-stream/cauce/libs/config"
	"github.com/cauce-stream/cauce/libs/plugin/configdef"
)

// The keys of a worker's configuration.
const (
	listKey = "config.providers"
	prefix  = "config.providers."
)

// provider looks up values. What it has read in one resolution it need not read again.
type provider interface {
	// value returns the value of a key at a path, which is empty when the reference has none.
	value(path, key string, read cache) (string, error)
}

// cache has the entries of files that were read in one resolution.
type cache map[string]map[string]string

// Set are the providers of a worker. It is safe for concurrent use.
type Set struct{ byName map[string]provider }

// New returns the providers of a worker's properties, which need not be resolved. The environment is NAME=value pairs as os.Environ gives them.
// The error has every fault, one a line.
func New(properties map[string]string, environ []string) (*Set, error) {
	s := &Set{byName: map[string]provider{}}
	var faults []error
	for _, name := range config.Elements(properties[listKey]) {
		params := map[string]string{}
		for key, text := range properties {
			if rest, ok := strings.CutPrefix(key, prefix+name+".param."); ok {
				params[rest] = text
			}
		}
		p, err := newProvider(strings.TrimSpace(properties[prefix+name+".class"]), params, environ)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s%s%w", prefix, name, err))
		}
		s.byName[name] = p
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return s, nil
}

// newProvider returns an error that goes on after the provider's name.
func newProvider(class string, params map[string]string, environ []string) (provider, error) {
	switch strings.TrimPrefix(class, "org.apache.kafka.common.config.provider.") {
	case "FileConfigProvider":
		allowed, err := newAllowed(params[allowedPaths])
		return files{allowed}, err
	case "DirectoryConfigProvider":
		allowed, err := newAllowed(params[allowedPaths])
		return directories{allowed}, err
	case "EnvVarConfigProvider":
		return newEnvironment(params, environ)
	}
	return nil, fmt.Errorf(".class is %q: one of FileConfigProvider, DirectoryConfigProvider, EnvVarConfigProvider is wanted", class)
}

// Resolve returns a configuration with values in the place of references. The error has every reference that has none, and never a value.
func (s *Set) Resolve(properties map[string]string) (map[string]string, error) {
	resolved, read := maps.Clone(properties), cache{}
	var faults []error
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		text, err := s.resolve(properties[key], read)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", key, err))
			continue
		}
		resolved[key] = text
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return resolved, nil
}

func (s *Set) resolve(text string, read cache) (string, error) {
	var b strings.Builder
	end := 0
	for _, r := range references(text) {
		p, ok := s.byName[r.provider]
		if !ok {
			return "", fmt.Errorf("%s: there is no provider %q; the worker's %s are %q", text[r.begin:r.end], r.provider, listKey, slices.Sorted(maps.Keys(s.byName)))
		}
		value, err := p.value(r.path, r.key, read)
		if err != nil {
			return "", fmt.Errorf("%s: %w", text[r.begin:r.end], err)
		}
		b.WriteString(text[end:r.begin] + value)
		end = r.end
	}
	return b.String() + text[end:], nil
}

// Hide puts the references of a connector's configuration back into configurations of tasks that were made of the resolved one, so that no secret
// is written to a topic: whatever a task's key is set to, it has again what the connector's key of that name has.
func Hide(connector map[string]string, tasks []map[string]string) []map[string]string {
	hidden := make([]map[string]string, len(tasks))
	for i, task := range tasks {
		hidden[i] = maps.Clone(task)
		for key := range task {
			if raw, ok := connector[key]; ok && len(references(raw)) > 0 {
				hidden[i][key] = raw
			}
		}
	}
	return hidden
}

// minConcealed is how long a value has to be for its text to be looked for in what is said of it: shorter ones are in many words.
const minConcealed = 4

// Conceal puts the references of a configuration in the place of what they were resolved to, in what was found of the resolved one: whoever may check a
// configuration need not know what the worker may read.
func Conceal(values []configdef.Value, raw, resolved map[string]string) []configdef.Value {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(raw)) {
		text, secret := raw[key], resolved[key]
		if len(references(text)) == 0 || secret == "" {
			continue
		}
		pairs = append(pairs, strconv.Quote(secret), strconv.Quote(text))
		if len(secret) >= minConcealed {
			pairs = append(pairs, secret, text)
		}
	}
	concealed := slices.Clone(values)
	words := strings.NewReplacer(pairs...)
	for i := range concealed {
		v := &concealed[i]
		if text := raw[v.Name]; len(references(text)) > 0 && v.Value != nil && *v.Value != configdef.Hidden {
			v.Value = &text
		}
		v.Errors = slices.Clone(v.Errors)
		for j := range v.Errors {
			v.Errors[j] = words.Replace(v.Errors[j])
		}
	}
	return concealed
}

// reference is ${provider:path:key} or ${provider:key} in a text, from begin to end.
type reference struct {
	provider, path, key string
	begin, end          int
}

// references are those of a text, in order. What has no colon is none: connectors have placeholders like ${topic} of their own.
func references(text string) []reference {
	var all []reference
	for at := 0; ; {
		begin := strings.Index(text[at:], "${")
		if begin < 0 {
			return all
		}
		begin += at
		length := strings.IndexByte(text[begin:], '}')
		if length < 0 {
			return all
		}
		at = begin + length + 1
		name, rest, ok := strings.Cut(text[begin+2:at-1], ":")
		if !ok {
			continue
		}
		r := reference{provider: name, key: rest, begin: begin, end: at}
		if path, key, ok := strings.Cut(rest, ":"); ok {
			r.path, r.key = path, key
		}
		all = append(all, r)
	}
}
