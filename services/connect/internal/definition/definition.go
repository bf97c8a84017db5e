// Package definition says how connectors are configured: the keys that all of them have, those of the converters, transforms and predicates that a
// configuration names, and the connector's own; and what of it goes together.
package definition

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/services/connect/internal/converter"
	"github.com/cauce-stream/cauce/services/connect/internal/herder"
	"github.com/cauce-stream/cauce/services/connect/internal/predicate"
	"github.com/cauce-stream/cauce/services/connect/internal/topiccreation"
	"github.com/cauce-stream/cauce/services/connect/internal/transform"
	"github.com/cauce-stream/cauce/services/connect/internal/workerconfig"
)

// Worker is what the configurations of connectors are held against besides their plugins.
type Worker struct {
	Config workerconfig.Config
	// Version is that of the converters, transforms and predicates, which are the worker's own.
	Version string
}

// Connector is what a plugin says of itself.
type Connector struct {
	// Class is the plugin's name as the configuration has it.
	Class   string
	Type    herder.Type
	Version string
	// Keys are those of the plugin.
	Keys configdef.Definition
	// Values are what the plugin found in a configuration, and Guarantees what it promises with it. Both are for Validate.
	Values     []configdef.Value
	Guarantees plugin.Guarantees
}

// Definition is all keys that a connector has whatever is configured, its own first.
func Definition(c Connector) configdef.Definition {
	d := slices.Clone(c.Keys)
	for _, k := range commonKeys(c) {
		if d.Find(k.Name) == nil {
			d = append(d, k)
		}
	}
	return d
}

// Validate returns all that there is to say of a configuration, by key: common keys, those of transforms and predicates, the connector's own,
// properties of clients, and those of converters that the configuration names.
func (w Worker) Validate(c Connector, config map[string]string) *herder.Validation {
	d := slices.Concat(w.withDefaults(commonKeys(c)), w.creationKeys(c.Type, config), w.stageKeys(config))
	v := &herder.Validation{Name: c.Class, Definition: d, Values: d.Validate(config)}
	addPlugin(v, c)
	v.Values = append(v.Values, w.overrides(c.Type, config)...)
	for _, use := range uses {
		d := converterKeys(use, config)
		v.Definition = append(v.Definition, d...)
		v.Values = append(v.Values, d.Validate(config)...)
	}
	for i := range v.Definition {
		if group := v.Definition[i].Group; group != "" && !slices.Contains(v.Groups, group) {
			v.Groups = append(v.Groups, group)
		}
	}
	v.Values = configdef.Add(v.Values, w.check(c, config, v))
	return v
}

// addPlugin adds what the plugin says. A key that it shares with all connectors is the plugin's.
func addPlugin(v *herder.Validation, c Connector) {
	for _, k := range c.Keys {
		if shared := v.Definition.Find(k.Name); shared != nil {
			*shared = k
			continue
		}
		v.Definition = append(v.Definition, k)
	}
	for _, value := range c.Values {
		i := slices.IndexFunc(v.Values, func(one configdef.Value) bool { return one.Name == value.Name })
		if i < 0 {
			v.Values = append(v.Values, value)
			continue
		}
		value.Errors = slices.Concat(v.Values[i].Errors, value.Errors)
		v.Values[i] = value
	}
}

// creationKeys are those of the groups of topics that a configuration names. Where the worker creates no topics they mean nothing.
func (w Worker) creationKeys(of herder.Type, config map[string]string) configdef.Definition {
	if of != herder.Source || !w.Config.Bool("topic.creation.enable") {
		return nil
	}
	return topiccreation.Definition(config)[1:] // the first is a source's anyway
}

// withDefaults has the definition show what the worker does where the configuration says nothing.
func (w Worker) withDefaults(d configdef.Definition) configdef.Definition {
	for _, use := range uses {
		class := w.Config.String(converterKey(use))
		if c, ok := converter.Find(class); ok {
			class = c.Name
		}
		k := d.Find(converterKey(use))
		k.Default, k.Recommended = &class, converterNames(use)
		d.Find(k.Name+versionSuffix).Default, d.Find(k.Name+versionSuffix).Recommended = &w.Version, []string{w.Version}
	}
	return d
}

// Check is an error if the worker's own configuration names a converter or a policy that there is not, or configures a converter wrongly.
func (w Worker) Check() error {
	var faults []error
	for _, use := range uses {
		class := w.Config.String(converterKey(use))
		if _, err := converter.New(class, use, w.Config.Family(converterKey(use)+".")); err != nil {
			faults = append(faults, fmt.Errorf("%s is %q: %w", converterKey(use), class, err))
		}
	}
	if _, ok := policies[w.policy()]; !ok {
		faults = append(faults, fmt.Errorf("%s is %q: one of All, None, Principal, Allowlist is wanted", policyKey, w.Config.String(policyKey)))
	}
	return errors.Join(faults...)
}

// Plugin is a plugin that configurations can name, with the type that the REST interface calls it.
type Plugin struct{ Class, Type, Version string }

// Plugins are the converters, transforms and predicates. A converter is there once for each type of use.
func (w Worker) Plugins() []Plugin {
	var all, headers []Plugin
	for _, c := range transform.Classes() {
		all = append(all, Plugin{c.Name, "transformation", w.Version})
	}
	for _, c := range predicate.Classes() {
		all = append(all, Plugin{c.Name, "predicate", w.Version})
	}
	for _, c := range converter.Classes() {
		if !c.HeaderOnly {
			all = append(all, Plugin{c.Name, "converter", w.Version})
		}
		headers = append(headers, Plugin{c.Name, "header_converter", w.Version})
	}
	return append(all, headers...)
}

// Find is the definition of a converter, transform or predicate, by full or short name, without prefixes.
func Find(class string) (configdef.Definition, bool) {
	if c, ok := converter.Find(class); ok {
		return c.Definition, true
	}
	if c, ok := transform.Find(class); ok {
		return c.Definition, true
	}
	c, ok := predicate.Find(class)
	return c.Definition, ok
}
