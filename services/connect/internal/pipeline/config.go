package pipeline

import (
	"fmt"
	"strings"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/services/connect/internal/converter"
)

// policy is what errors.* of a connector say.
type policy struct {
	// tolerate has records left out that fail.
	tolerate bool
	// retryTimeout is for how long an operation is tried again; negative for ever. maxDelay bounds the pause before it.
	retryTimeout, maxDelay time.Duration
	// log has failures logged, messages what record it was, too.
	log, messages bool
}

var definition = configdef.Definition{
	{Name: "errors.tolerance", Type: configdef.String, Default: new("none"), Importance: configdef.Medium, Valid: configdef.Rule{OneOf: []string{"none", "all"}, IgnoreCase: true},
		Doc: "Whether the task ends with the first record that fails, or leaves those out that do."},
	{Name: "errors.retry.timeout", Type: configdef.Long, Default: new("0"), Importance: configdef.Medium, Valid: configdef.Rule{Min: new(-1.0)},
		Doc: "For how many milliseconds a failed operation is tried again; -1 for ever."},
	{Name: "errors.retry.delay.max.ms", Type: configdef.Long, Default: new("60000"), Importance: configdef.Medium, Valid: configdef.Rule{Min: new(0.0)},
		Doc: "Longest pause between attempts in milliseconds."},
	{Name: "errors.log.enable", Type: configdef.Boolean, Default: new("false"), Importance: configdef.Medium, Doc: "Whether each failure is logged."},
	{Name: "errors.log.include.messages", Type: configdef.Boolean, Default: new("false"), Importance: configdef.Medium, Doc: "Whether it is logged which record has failed."},
}

func newPolicy(properties map[string]string) (policy, error) {
	v, err := definition.Parse(properties)
	if err != nil {
		return policy{}, err
	}
	return policy{tolerate: strings.EqualFold(v.String("errors.tolerance"), "all"), retryTimeout: v.Millis("errors.retry.timeout"),
		maxDelay: v.Millis("errors.retry.delay.max.ms"), log: v.Bool("errors.log.enable"), messages: v.Bool("errors.log.include.messages")}, nil
}

// newConverter makes the connector's converter of a use or, where it names none, the worker's. Class and keys go together: of one that is not named
// the keys say nothing.
func newConverter(c Config, use converter.Use, family string) (stage, error) {
	name := strings.TrimSuffix(family, ".")
	class, keys := strings.TrimSpace(c.Properties[name]), map[string]string{}
	if class != "" {
		for key, text := range c.Properties {
			if rest, ok := strings.CutPrefix(key, family); ok {
				keys[rest] = text
			}
		}
	} else {
		class, keys = c.Worker.String(name), c.Worker.Family(family)
	}
	found, ok := converter.Find(class)
	if !ok {
		return stage{}, fmt.Errorf("%s: there is no converter %q", name, class)
	}
	made, err := converter.New(found.Name, use, keys)
	if err != nil {
		return stage{}, fmt.Errorf("%s: %w", name, err)
	}
	return stage{made, found.Name}, nil
}
