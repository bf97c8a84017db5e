// Package topiccreation says with what a source connector's topics are created: groups of topics by patterns of their names, each with partitions,
// replicas and configuration (KIP-158).
package topiccreation

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cauce-stream/cauce/services/connect/internal/javaregex"
)

const (
	prefix       = "topic.creation."
	defaultGroup = "default"
	include      = "include"
	exclude      = "exclude"
	partitions   = "partitions"
	replicas     = "replication.factor"
)

// Topic is one that is to be created.
type Topic struct {
	Name string
	// Partitions and ReplicationFactor are -1 for what the brokers have as their default.
	Partitions        int32
	ReplicationFactor int16
	// Configs are the topic's own configuration.
	Configs map[string]string
	// Group is the group that the topic is of.
	Group string
}

// Groups are those of a connector.
type Groups struct{ groups []group } // the default one last

type group struct {
	name             string
	included, others []*javaregex.Pattern
	topic            Topic
}

// Used says whether a configuration has groups at all: any key that begins with topic.creation.
func Used(config map[string]string) bool {
	for name := range config {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// New returns the groups of a connector's configuration, or nil when it has none: then topics are not created for it. The error has every fault, one a line.
func New(config map[string]string) (*Groups, error) {
	if !Used(config) {
		return nil, nil
	}
	d := Definition(config)
	values, err := d.Parse(config)
	faults := []error{err}
	for _, f := range Check(config) {
		faults = append(faults, errors.New(strings.Join(f.Errors, "\n")))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	g := &Groups{}
	for _, name := range append(named(config), defaultGroup) {
		one := group{name: name, topic: Topic{Partitions: int32(values.Int(key(name, partitions))), ReplicationFactor: int16(values.Int(key(name, replicas))),
			Configs: configsOf(config, name), Group: name}}
		if name != defaultGroup {
			if one.included, err = compile(values.List(key(name, include))); err != nil {
				return nil, fmt.Errorf("%s: %w", key(name, include), err)
			}
			if one.others, err = compile(values.List(key(name, exclude))); err != nil {
				return nil, fmt.Errorf("%s: %w", key(name, exclude), err)
			}
		}
		g.groups = append(g.groups, one)
	}
	return g, nil
}

// Topic is what is to be created under a name: the first group counts that includes it and does not exclude it, else the default one.
func (g *Groups) Topic(name string) Topic {
	i := slices.IndexFunc(g.groups, func(one group) bool {
		return one.name == defaultGroup || anyMatches(one.included, name) && !anyMatches(one.others, name)
	})
	t := g.groups[i].topic
	t.Name = name
	return t
}

func anyMatches(patterns []*javaregex.Pattern, name string) bool {
	return slices.ContainsFunc(patterns, func(p *javaregex.Pattern) bool { return p.Matches(name) })
}

func compile(expressions []string) ([]*javaregex.Pattern, error) {
	patterns := make([]*javaregex.Pattern, len(expressions))
	for i, e := range expressions {
		var err error
		if patterns[i], err = javaregex.Compile(e); err != nil {
			return nil, err
		}
	}
	return patterns, nil
}

func key(group, rest string) string { return prefix + group + "." + rest }

// configsOf are the keys of a group that are the topic's own.
func configsOf(config map[string]string, group string) map[string]string {
	configs := map[string]string{}
	for name, value := range config {
		rest, ok := strings.CutPrefix(name, prefix+group+".")
		if ok && !slices.Contains([]string{include, exclude, partitions, replicas}, rest) {
			configs[rest] = value
		}
	}
	return configs
}

// named are the groups that a configuration lists, each once, without the default one, which is always there.
func named(config map[string]string) []string {
	values, err := list.Parse(config)
	if err != nil {
		return nil
	}
	var names []string
	for _, name := range values.List(groupsKey) {
		if name != defaultGroup && name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
