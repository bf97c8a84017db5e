// Package form puts definitions of configurations together from groups of keys, and collects what is wrong with the values.
package form

import (
	"errors"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
)

// Group is the keys under one heading.
type Group struct {
	Name string
	Keys configdef.Definition
}

// Define returns the keys of all groups, each with its group and its place in it.
func Define(groups ...Group) configdef.Definition {
	var all configdef.Definition
	for _, g := range groups {
		for i, k := range g.Keys {
			k.Group, k.Order = g.Name, i+1
			all = append(all, k)
		}
	}
	return all
}

// Findings are what a connector finds of a configuration.
type Findings []configdef.Finding

// Add takes note that something is wrong with a key, unless err is nil.
func (f *Findings) Add(key string, err error) {
	if err != nil {
		*f = append(*f, configdef.Finding{Name: key, Errors: []string{key + ": " + err.Error()}})
	}
}

// Hide takes note that keys mean nothing beside the others.
func (f *Findings) Hide(keys ...string) {
	for _, key := range keys {
		*f = append(*f, configdef.Finding{Name: key, Hidden: true})
	}
}

// Err is the first thing that is wrong; nil when nothing is.
func (f Findings) Err() error {
	for _, one := range f {
		if len(one.Errors) > 0 {
			return errors.New(one.Errors[0])
		}
	}
	return nil
}
