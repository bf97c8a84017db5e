package definition

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/services/connect/internal/predicate"
	"github.com/cauce-stream/cauce/services/connect/internal/transform"
)

// kind is one of the two kinds of plugins that a connector's configuration gives names to.
type kind struct {
	// list is the key of the names; those of each name begin with list.NAME.
	list, group, display, noun string
	names                      func() []string
	// find returns full name and keys of a class, and make is an error if it cannot be made with a configuration.
	find func(class string) (name string, d configdef.Definition, ok bool)
	make func(class string, config map[string]string) error
	// more are keys of each name besides those of its class.
	more configdef.Definition
}

var kinds = []kind{
	{
		list: transformsKey, group: transformsGroup, display: "Transformation", noun: "transformation", more: concernKeys,
		names: func() (names []string) {
			for _, c := range transform.Classes() {
				names = append(names, c.Name)
			}
			return names
		},
		find: func(class string) (string, configdef.Definition, bool) {
			c, ok := transform.Find(class)
			return c.Name, c.Definition, ok
		},
		make: func(class string, config map[string]string) error { _, err := transform.New(class, config); return err },
	},
	{
		list: predicatesKey, group: predicatesGroup, display: "Predicate", noun: "predicate",
		names: func() (names []string) {
			for _, c := range predicate.Classes() {
				names = append(names, c.Name)
			}
			return names
		},
		find: func(class string) (string, configdef.Definition, bool) {
			c, ok := predicate.Find(class)
			return c.Name, c.Definition, ok
		},
		make: func(class string, config map[string]string) error { _, err := predicate.New(class, config); return err },
	},
}

// concernKeys say which records a transform concerns (KIP-585).
var concernKeys = configdef.Definition{
	{Name: "predicate", Type: configdef.String, Importance: configdef.Medium, Doc: "The name of the predicate that is true of the records to transform; all records when unset."},
	{Name: "negate", Type: configdef.Boolean, Default: new("false"), Importance: configdef.Medium, Doc: "Whether to transform those records that the predicate is not true of."},
}

// stageKeys are the keys of the transforms and predicates that a configuration names.
func (w Worker) stageKeys(config map[string]string) configdef.Definition {
	var d configdef.Definition
	for _, k := range kinds {
		for _, alias := range distinct(elements(config, k.list)) {
			d = append(d, w.keysOf(k, alias, config)...)
		}
	}
	return d
}

func (w Worker) keysOf(k kind, alias string, config map[string]string) configdef.Definition {
	prefix, group := k.list+"."+alias+".", k.group+": "+alias
	d := configdef.Definition{
		{
			Name: prefix + "type", Type: configdef.Class, Required: true, Importance: configdef.High, Group: group, Width: configdef.LongWidth,
			DisplayName: k.display + " type for " + alias, Doc: fmt.Sprintf("The class of %s %s.", k.noun, alias), Recommended: k.names(),
		},
		{
			Name: prefix + "plugin.version", Type: configdef.String, Importance: configdef.High, Group: group, Order: 1, Width: configdef.LongWidth,
			DisplayName: k.display + " version for " + alias, Doc: fmt.Sprintf("The version of %s %s that is wanted.", k.noun, alias),
		},
	}
	_, own, ok := k.find(strings.TrimSpace(config[prefix+"type"]))
	if !ok {
		return d
	}
	d[1].Default, d[1].Recommended = &w.Version, []string{w.Version}
	keys := slices.Concat(k.more, own)
	slices.SortStableFunc(keys, naturally)
	for i, key := range keys {
		key.Name, key.Group, key.Order = prefix+key.Name, group, len(d)
		key.DisplayName = cmp.Or(key.DisplayName, keys[i].Name)
		key.Dependents = prefixed(prefix, key.Dependents)
		d = append(d, key)
	}
	return d
}

// naturally is the order of keys that have no place in a form: required ones first, then by importance, then by name.
func naturally(a, b configdef.Key) int {
	rank := func(k configdef.Key) int {
		if k.Required {
			return -1
		}
		return slices.Index([]configdef.Importance{configdef.High, configdef.Medium, configdef.Low}, k.Importance)
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Name, b.Name))
}

func prefixed(prefix string, names []string) []string {
	var all []string
	for _, name := range names {
		all = append(all, prefix+name)
	}
	return all
}

// checkStages is what the keys of transforms and predicates do not say of themselves.
func (w Worker) checkStages(f *faults, config map[string]string) {
	for _, k := range kinds {
		aliases := elements(config, k.list)
		for i, alias := range aliases {
			switch {
			case alias == "":
				f.add(k.list, "one of its names is empty")
			case slices.Contains(aliases[:i], alias):
				f.add(k.list, "%q is there twice", alias)
			default:
				w.checkStage(f, k, alias, config)
			}
		}
	}
}

func (w Worker) checkStage(f *faults, k kind, alias string, config map[string]string) {
	prefix := k.list + "." + alias + "."
	class, ok := config[prefix+"type"]
	if !ok {
		return
	}
	name, own, known := k.find(strings.TrimSpace(class))
	if !known {
		f.add(prefix+"type", "is %q: there is no such %s; GET /connector-plugins?connectorsOnly=false lists them", class, k.noun)
		return
	}
	w.checkVersion(f, prefix+"plugin.version", name, w.Version, config)
	if !f.has(prefix) {
		if err := k.make(name, below(config, prefix)); err != nil {
			f.unmade(prefix, prefix+"type", name, own, err)
		}
	}
	if k.list != transformsKey {
		return
	}
	concern, given := config[prefix+"predicate"]
	switch _, negated := config[prefix+"negate"]; {
	case !given && negated:
		f.add(prefix+"negate", "is set, but there is no %spredicate to negate", prefix)
	case given && !slices.Contains(elements(config, predicatesKey), strings.TrimSpace(concern)):
		f.add(prefix+"predicate", "is %q: that is not in the list %s", concern, predicatesKey)
	}
}

// elements are those of a list, without blanks.
func elements(config map[string]string, name string) []string {
	text := strings.TrimSpace(config[name])
	if text == "" {
		return nil
	}
	list := strings.Split(text, ",")
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	return list
}

func distinct(list []string) []string {
	var once []string
	for _, one := range list {
		if one != "" && !slices.Contains(once, one) {
			once = append(once, one)
		}
	}
	return once
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
