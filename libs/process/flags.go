package process

import (
	"os"
	"slices"
	"strings"

	"github.com/cauce-stream/cauce/libs/config"
	"github.com/spf13/pflag"
)

// Flags are the command-line flags that every program has.
type Flags struct {
	ConfigFile string   // --config
	Set        []string // --set key=value, may be repeated
	DataDir    string   // --data-dir, short for data.dir
	Listen     string   // --listen host:port, short for listeners=PLAINTEXT://host:port
	Admin      string   // --admin host:port, short for admin.listener
	flags      *pflag.FlagSet
}

// AddTo defines the flags in fs; values are read by Load after fs has parsed.
func (f *Flags) AddTo(fs *pflag.FlagSet) {
	f.flags = fs
	fs.StringVar(&f.ConfigFile, "config", "", "read keys from this .properties `FILE`")
	fs.StringArrayVar(&f.Set, "set", nil, "set one key, as `KEY=VALUE`; may be repeated")
	fs.StringVar(&f.DataDir, "data-dir", "", "keep everything in this `DIR` (data.dir)")
	fs.StringVar(&f.Listen, "listen", "", "serve Kafka clients at `HOST:PORT` (listeners)")
	fs.StringVar(&f.Admin, "admin", "", "serve health, metrics and profiles at `HOST:PORT` (admin.listener)")
}

// Load resolves schema from the defaults, the file, the environment and the flags.
func (f *Flags) Load(schema *config.Schema) (config.Values, error) {
	o := config.Options{File: f.ConfigFile, Env: settings(os.Environ()), Set: f.Set}
	f.short(&o, "data-dir", "data.dir", f.DataDir)
	f.short(&o, "admin", "admin.listener", f.Admin)
	if strings.Contains(f.Listen, "://") {
		f.short(&o, "listen", "listeners", f.Listen)
	} else {
		f.short(&o, "listen", "listeners", "PLAINTEXT://"+f.Listen)
	}
	return config.Load(schema, o)
}

// short adds a flag that is short for a key, when it was given.
func (f *Flags) short(o *config.Options, flag, key, value string) {
	if f.flags.Changed(flag) {
		o.Flags = append(o.Flags, config.Flag{Flag: "--" + flag, Name: key, Value: value})
	}
}

// otherVariables begin with the prefix of keys and name none: what the command
// line client reads, and where its tests find the program.
var otherVariables = []string{"CAUCE_BOOTSTRAP", "CAUCE_BINARY", "CAUCE_CONNECT"}

// settings are the variables of env that may set keys. The cluster's id has a
// name without prefix in the apache/kafka image.
func settings(env []string) []string {
	var kept []string
	for _, pair := range env {
		name, value, _ := strings.Cut(pair, "=")
		switch {
		case name == "CLUSTER_ID":
			kept = append(kept, "KAFKA_CLUSTER_ID="+value)
		case !slices.Contains(otherVariables, name):
			kept = append(kept, pair)
		}
	}
	return kept
}
