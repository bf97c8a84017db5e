package config

import (
	"fmt"
	"os"
	"strings"
)

// EnvPrefix begins the environment variables that set keys.
const EnvPrefix = "CAUCE_"

// kafkaEnvPrefix begins those of the apache/kafka image, in the same spelling.
const kafkaEnvPrefix = "KAFKA_"

// Options names the layers above the defaults, each overriding the one before.
type Options struct {
	File string   // path of a .properties file; "" for none
	Env  []string // NAME=value pairs as os.Environ gives them; those without a prefix of ours or Kafka's are ignored
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
	v.setKafkaEnv(o.Env, keep)
	for _, pair := range o.Env {
		if name, value, ok := strings.Cut(pair, "="); ok && strings.HasPrefix(name, EnvPrefix) {
			keep(v.set(keyOfEnv(name, EnvPrefix), value, "env "+name))
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

// setKafkaEnv overlays variables in the style of the apache/kafka image. Many of those that compose files set, and that
// Kubernetes adds for a service called kafka, are no keys: they are passed over.
func (v *Values) setKafkaEnv(env []string, keep func(*Fault)) {
	for _, pair := range env {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || !strings.HasPrefix(name, kafkaEnvPrefix) {
			continue
		}
		key, where := keyOfEnv(name, kafkaEnvPrefix), "env "+name
		if _, known := v.schema.Lookup(key); known {
			keep(v.set(key, value, where))
			continue
		}
		f := v.schema.unknown(key)
		f.Where = where
		v.passedOver = append(v.passedOver, f.Error())
	}
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
func keyOfEnv(name, prefix string) string {
	name = strings.ToLower(strings.TrimPrefix(name, prefix))
	return strings.NewReplacer("___", "-", "__", "_", "_", ".").Replace(name)
}
