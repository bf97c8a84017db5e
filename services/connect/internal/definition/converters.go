package definition

import (
	"cmp"
	"strings"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/services/connect/internal/converter"
)

// uses are in the order in which their keys are shown.
var uses = []converter.Use{converter.Header, converter.Key, converter.Value}

func converterKey(use converter.Use) string { return string(use) + ".converter" }

// converterNames are the classes for a use.
func converterNames(use converter.Use) []string {
	var names []string
	for _, c := range converter.Classes() {
		if use == converter.Header || !c.HeaderOnly {
			names = append(names, c.Name)
		}
	}
	return names
}

// converterKeys are the keys of the converter that a configuration names. Without a name the worker's is used, with the worker's keys alone.
func converterKeys(use converter.Use, config map[string]string) configdef.Definition {
	c, ok := converter.Find(strings.TrimSpace(config[converterKey(use)]))
	if !ok {
		return nil
	}
	prefix := converterKey(use) + "."
	var d configdef.Definition
	for _, k := range c.Definition {
		k.DisplayName = cmp.Or(k.DisplayName, k.Name)
		k.Name, k.Dependents = prefix+k.Name, prefixed(prefix, k.Dependents)
		d = append(d, k)
	}
	return d
}

func (w Worker) checkConverters(f *faults, config map[string]string) {
	for _, use := range uses {
		key := converterKey(use)
		class, ok := config[key]
		if !ok {
			continue
		}
		c, known := converter.Find(strings.TrimSpace(class))
		switch {
		case !known:
			f.add(key, "is %q: there is no such converter; one of %s is wanted", class, strings.Join(converterNames(use), ", "))
			continue
		case f.has(key + "."):
			continue
		}
		w.checkVersion(f, key+versionSuffix, c.Name, w.Version, config)
		if _, err := converter.New(c.Name, use, below(config, key+".")); err != nil {
			f.unmade(key+".", key, c.Name, c.Definition, err)
		}
	}
}
