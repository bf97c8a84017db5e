package config

import (
	"fmt"
	"os"
	"strings"
)

// EnvPrefix begins the environment variables that set keys.
const EnvPrefix = "CAUCE_"

// Options names the layers above the defaults, each overriding the one before.
type Options struct {
	File string   // path of a .properties file; "" for none
	Env  []string // NAME=value pairs as os.Environ gives them; those without EnvPrefix are ignored
	Set  []string // key=value pairs of --set flags
	// Flags are flags that are short for a key; they win over Set.
	Flags []Flag
}

// Flag is a command-line flag that sets one key.
type Flag struct {
	Flag  string // as the user wrote it, e.g. "--listen"
	Name  string // of the key
	Value string
}

// Load resolves every key of schema. The error is Faults with all faults of all
// layers, or the error of reading the file.
func Load(schema *Schema, o Options) (Values, error) {
	v := schema.Defaults()
	var faults Faults
	keep := func(f *Fault) {
		if f != nil {
			faults = append(faults, f)
		}
	}
	if o.File != "" {
		text, err := os.ReadFile(o.File)
		if err != nil {
			return Values{}, fmt.Errorf("reading the configuration file: %w", err)
		}
		v.setFile(o.File, string(text), keep)
	}
	for _, pair := range o.Env {
		if name, value, ok := strings.Cut(pair, "="); ok && strings.HasPrefix(name, EnvPrefix) {
			keep(v.set(keyOfEnv(name), value, "env "+name))
		}
	}
	for _, pair := range o.Set {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			keep(&Fault{Name: pair, Where: "--set", Reason: "not of the form key=value"})
			continue
		}
		keep(v.set(strings.TrimSpace(name), value, "--set"))
	}
	for _, f := range o.Flags {
		keep(v.set(f.Name, f.Value, f.Flag))
	}
	if faults != nil {
		return Values{}, faults
	}
	return v, nil
}

func (v Values) setFile(path, text string, keep func(*Fault)) {
	lines := map[string]int{}
	for p, err := range properties(text) {
		where := fmt.Sprintf("%s:%d", path, p.line)
		switch first, twice := lines[p.name]; {
		case err != nil:
			keep(&Fault{Name: p.name, Where: where, Reason: err.Error()})
		case twice:
			keep(&Fault{Name: p.name, Where: where, Reason: fmt.Sprintf("already set in line %d", first)})
		default:
			lines[p.name] = p.line
			keep(v.set(p.name, p.value, where))
		}
	}
}

// keyOfEnv is the inverse of EnvName.
func keyOfEnv(name string) string {
	name = strings.ToLower(strings.TrimPrefix(name, EnvPrefix))
	return strings.NewReplacer("___", "-", "__", "_", "_", ".").Replace(name)
}
