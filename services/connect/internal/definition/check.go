package definition

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/services/connect/internal/herder"
	"github.com/cauce-stream/cauce/services/connect/internal/javaregex"
	"github.com/cauce-stream/cauce/services/connect/internal/topiccreation"
)

// faults collects what is wrong, beside what the definitions have found.
type faults struct {
	found []configdef.Finding
	// refused are the keys that a definition has found something wrong with.
	refused []string
}

// add reports a fault of a key, in words that go on after the key's name.
func (f *faults) add(name, format string, args ...any) {
	f.found = append(f.found, configdef.Finding{Name: name, Errors: []string{name + " " + fmt.Sprintf(format, args...)}})
}

// unmade reports why a class cannot be made: by the key, behind a prefix, that the reason begins with, or else by the key that names the class.
func (f *faults) unmade(prefix, named, class string, keys configdef.Definition, err error) {
	reason := strings.TrimPrefix(err.Error(), class+": ")
	for i := range keys {
		if rest, ok := strings.CutPrefix(reason, keys[i].Name+": "); ok {
			f.add(prefix+keys[i].Name, "does not do: %s", rest)
			return
		}
	}
	f.add(named, "cannot be made as it is configured: %s", reason)
}

// has says whether a definition has refused a key that begins so.
func (f *faults) has(prefix string) bool {
	return slices.ContainsFunc(f.refused, func(name string) bool { return strings.HasPrefix(name, prefix) })
}

// check is all that the keys do not say of themselves.
func (w Worker) check(c Connector, config map[string]string, v *herder.Validation) []configdef.Finding {
	f := &faults{}
	for _, value := range v.Values {
		if len(value.Errors) > 0 {
			f.refused = append(f.refused, value.Name)
		}
	}
	if strings.ContainsFunc(config[nameKey], unicode.IsControl) {
		f.add(nameKey, "is %q: control characters are not allowed", config[nameKey])
	}
	w.checkVersion(f, versionKey, c.Class, c.Version, config)
	w.checkConverters(f, config)
	w.checkStages(f, config)
	if c.Type == herder.Source {
		w.checkSource(f, c, config)
	} else {
		w.checkSink(f, config)
	}
	w.checkOverrides(f, c.Type, config)
	return f.found
}

func (w Worker) checkVersion(f *faults, key, what, version string, config map[string]string) {
	wanted, ok := config[key]
	if !ok {
		return
	}
	fits, err := satisfies(version, wanted)
	switch {
	case err != nil:
		f.add(key, "is %q: %v", wanted, err)
	case !fits:
		f.add(key, "is %q: what there is of %s is version %q", wanted, what, version)
	}
}

func (w Worker) checkSource(f *faults, c Connector, config map[string]string) {
	if w.Config.Bool("topic.creation.enable") {
		f.found = append(f.found, topiccreation.Check(config)...)
	}
	asked := !slices.ContainsFunc(c.Values, func(v configdef.Value) bool { return len(v.Errors) > 0 })
	if strings.EqualFold(strings.TrimSpace(config[exactlyOnceKey]), "required") {
		if w.Config.String("exactly.once.source.support") != "enabled" {
			f.add(exactlyOnceKey, "is required: this worker's exactly.once.source.support is %s", w.Config.String("exactly.once.source.support"))
		}
		if asked && !c.Guarantees.ExactlyOnce {
			f.add(exactlyOnceKey, "is required: the connector does not promise it with this configuration; with requested that is not asked for")
		}
	}
	if asked && strings.EqualFold(strings.TrimSpace(config[boundaryKey]), "connector") && !c.Guarantees.Transactions {
		f.add(boundaryKey, "is connector: with this configuration the connector does not say where transactions end; poll and interval are left")
	}
}

func (w Worker) checkSink(f *faults, config map[string]string) {
	given, regex := elements(config, topicsKey), strings.TrimSpace(config[topicsRegexKey])
	topics := distinct(given)
	for i, topic := range given {
		switch {
		case topic == "":
			f.add(topicsKey, "is %q: one of the names is empty", config[topicsKey])
		case slices.Contains(given[:i], topic):
			f.add(topicsKey, "is %q: %q is there twice", config[topicsKey], topic)
		}
	}
	switch {
	case len(topics) > 0 && regex != "":
		f.add(topicsKey, "and %s are both set: either is wanted", topicsRegexKey)
		f.add(topicsRegexKey, "and %s are both set: either is wanted", topicsKey)
	case len(topics) == 0 && regex == "":
		f.add(topicsKey, "or %s is required", topicsRegexKey)
		f.add(topicsRegexKey, "or %s is required", topicsKey)
	}
	deadLetters := strings.TrimSpace(config[deadLetterKey])
	if deadLetters != "" && slices.Contains(topics, deadLetters) {
		f.add(topicsKey, "has %q, which is %s: what the connector cannot write it would read again", deadLetters, deadLetterKey)
	}
	if regex != "" {
		pattern, err := javaregex.Compile(regex)
		switch {
		case err != nil:
			f.add(topicsRegexKey, "is %q: %v", regex, err)
		case deadLetters != "" && pattern.Matches(deadLetters):
			f.add(topicsRegexKey, "is %q and matches %q, which is %s: what the connector cannot write it would read again", regex, deadLetters, deadLetterKey)
		}
	}
	w.checkSinkGroup(f, config)
}

// checkSinkGroup sees to it that the sink's consumers do not join the group of the workers.
func (w Worker) checkSinkGroup(f *faults, config map[string]string) {
	const override = consumerOverride + "group.id"
	own := w.Config.String("group.id")
	group, given := config[override]
	switch {
	case given && group == own:
		f.add(override, "is %q, as is the group of the workers", group)
	case !given && "connect-"+config[nameKey] == own:
		f.add(nameKey, "is %q: its consumers' group would be %q, as is the group of the workers", config[nameKey], own)
	}
}
