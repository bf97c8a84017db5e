package topiccreation

import (
	"fmt"
	"slices"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
)

const (
	groupsKey = prefix + "groups"
	heading   = "Topic Creation"
)

// list is the key that is there without any group.
var list = configdef.Definition{{
	Name: groupsKey, Type: configdef.List, Default: new(""), Importance: configdef.Low, Group: heading, Order: 1, Width: configdef.LongWidth, DisplayName: "Topic Creation Groups",
	Doc: "Groups of topics that are created in the same way. The first group counts whose patterns a topic's name matches, and the group default for all other topics.",
}}

// Definition is the keys that a connector's configuration may have, which depends on the groups that it lists. A configuration that has any of them needs
// partitions and replicas of the default group.
func Definition(config map[string]string) configdef.Definition {
	d := slices.Clone(list)
	if !Used(config) {
		return d
	}
	d = append(d, keysOf(defaultGroup, defaultGroup, nil, nil)...)
	own := func(rest string) *string {
		if text, ok := config[key(defaultGroup, rest)]; ok {
			return &text
		}
		return new("-1")
	}
	for _, name := range named(config) {
		d = append(d, keysOf(name, heading+": "+name, own(partitions), own(replicas))...)
	}
	return d
}

// keysOf are the keys of a group; without the default group's values as their default, they are those of that group.
func keysOf(name, heading string, defaultPartitions, defaultReplicas *string) configdef.Definition {
	required := defaultPartitions == nil
	included := ""
	if required {
		included = ".*"
	}
	return configdef.Definition{
		{Name: key(name, include), Type: configdef.List, Default: &included, Importance: configdef.Low, Group: heading, Order: 1, Width: configdef.LongWidth,
			DisplayName: "Inclusion Topic Pattern for " + name, Doc: "Regular expressions of Java's for the names of the group's topics. It means nothing for the group default, which has all that no other group has."},
		{Name: key(name, exclude), Type: configdef.List, Default: new(""), Importance: configdef.Low, Group: heading, Order: 2, Width: configdef.LongWidth,
			DisplayName: "Exclusion Topic Pattern for " + name, Doc: "Regular expressions of Java's for the names of topics that are not of the group, even if they are included."},
		{Name: key(name, replicas), Type: configdef.Short, Required: required, Default: defaultReplicas, Importance: configdef.Low, Group: heading, Order: 3,
			Width: configdef.LongWidth, DisplayName: "Replication Factor for Topics in " + name, Valid: configdef.Rule{Min: new(-1.0)},
			Doc: "Replicas of the group's topics, at most as many as there are brokers; -1 for the brokers' default. Groups that do not say it take that of the group default."},
		{Name: key(name, partitions), Type: configdef.Int, Required: required, Default: defaultPartitions, Importance: configdef.Low, Group: heading, Order: 4,
			Width: configdef.LongWidth, DisplayName: "Partition Count for Topics in " + name, Valid: configdef.Rule{Min: new(-1.0)},
			Doc: "Partitions of the group's topics; -1 for the brokers' default. Groups that do not say it take that of the group default."},
	}
}

// Check is what is wrong with a configuration beyond what its Definition says.
func Check(config map[string]string) []configdef.Finding {
	var findings []configdef.Finding
	refuse := func(name, format string, args ...any) {
		findings = append(findings, configdef.Finding{Name: name, Errors: []string{name + " " + fmt.Sprintf(format, args...)}})
	}
	if values, err := list.Parse(config); err == nil {
		names := values.List(groupsKey)
		for i, name := range names {
			switch {
			case name == "":
				refuse(groupsKey, "is %q: a group has no name", config[groupsKey])
			case slices.Contains(names[:i], name):
				refuse(groupsKey, "is %q: group %s is there twice", config[groupsKey], name)
			}
		}
	}
	for _, k := range Definition(config) {
		one := configdef.Definition{k}
		text, given := config[k.Name]
		values, err := one.Parse(config)
		if !given || err != nil {
			continue // said by the definition
		}
		switch {
		case k.Type == configdef.List && k.Name != groupsKey && k.Group != defaultGroup:
			if _, err := compile(values.List(k.Name)); err != nil {
				refuse(k.Name, "is %q: %v", text, err)
			}
		case (k.Type == configdef.Int || k.Type == configdef.Short) && values.Int(k.Name) == 0:
			refuse(k.Name, "is %q: a positive number is wanted, or -1 for the brokers' default", text)
		}
	}
	return findings
}
