package transform

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/services/connect/internal/predicate"
)

// Stage is a transform in a connector's configuration, with the predicate that says which records it concerns.
type Stage struct {
	// Alias is its name in the list transforms, Class the full name of its class.
	Alias, Class string

	transform Transform
	concerns  predicate.Predicate
	negate    bool
}

// Apply applies the transform, if it concerns the record.
func (s *Stage) Apply(r data.Record) (changed data.Record, dropped bool, err error) {
	if s.concerns != nil && s.concerns(&r) == s.negate {
		return r, false, nil
	}
	return s.transform.Apply(r)
}

// Stages returns the transforms of a connector's configuration in their order: those that the key transforms lists, each with
// its keys transforms.<alias>.*, and the predicates that they name (KIP-585). The error has every fault, one a line.
func Stages(config map[string]string) ([]*Stage, error) {
	predicates, faults := predicatesOf(config)
	aliases, err := list(config, "transforms")
	faults = append(faults, err)
	var stages []*Stage
	for _, alias := range aliases {
		s, err := newStage(alias, config, predicates)
		if err != nil {
			faults = append(faults, fmt.Errorf("transforms.%s: %w", alias, err))
		}
		stages = append(stages, s)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return stages, nil
}

func predicatesOf(config map[string]string) (map[string]predicate.Predicate, []error) {
	aliases, err := list(config, "predicates")
	faults := []error{err}
	predicates := map[string]predicate.Predicate{}
	for _, alias := range aliases {
		keys := below(config, "predicates."+alias+".")
		p, err := predicate.New(keys["type"], keys)
		if err != nil {
			faults = append(faults, fmt.Errorf("predicates.%s: %w", alias, err))
		}
		predicates[alias] = p
	}
	return predicates, faults
}

func newStage(alias string, config map[string]string, predicates map[string]predicate.Predicate) (*Stage, error) {
	keys := below(config, "transforms."+alias+".")
	c, ok := Find(keys["type"])
	if !ok {
		return nil, fmt.Errorf("type: there is no transformation %q", keys["type"])
	}
	t, err := New(c.Name, keys)
	if err != nil {
		return nil, err
	}
	s := &Stage{Alias: alias, Class: c.Name, transform: t}
	if name := strings.TrimSpace(keys["predicate"]); name != "" {
		if s.concerns, ok = predicates[name]; !ok {
			return nil, fmt.Errorf("predicate: %q is not in the list of predicates", name)
		}
	}
	if text, ok := keys["negate"]; ok {
		if s.negate, err = strconv.ParseBool(strings.ToLower(strings.TrimSpace(text))); err != nil {
			return nil, fmt.Errorf("negate is %q: true or false is wanted", text)
		}
	}
	return s, nil
}

// list returns the names in a key that lists them.
func list(config map[string]string, name string) ([]string, error) {
	v, err := configdef.Definition{{Name: name, Type: configdef.List, Default: new("")}}.Parse(config)
	if err != nil {
		return nil, err
	}
	names := v.List(name)
	for i, one := range names {
		if one == "" || slices.Contains(names[:i], one) {
			return nil, fmt.Errorf("%s: %q is empty or there twice", name, one)
		}
	}
	return names, nil
}

// below returns the keys that have a prefix, without it.
func below(config map[string]string, prefix string) map[string]string {
	keys := map[string]string{}
	for key, text := range config {
		if rest, ok := strings.CutPrefix(key, prefix); ok {
			keys[rest] = text
		}
	}
	return keys
}
