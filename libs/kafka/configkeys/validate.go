package configkeys

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cauce-stream/cauce/libs/config"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Error is a refused change of dynamic configs. It wraps a *kerr.Error, which
// is the code of the answer; its text is the message of the answer and names
// the keys at fault.
type Error struct {
	Code    *kerr.Error
	Message string
}

// Error returns the message for the client.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the code.
func (e *Error) Unwrap() error { return e.Code }

// ValidateTopic reports why a topic cannot have these overrides: unknown keys,
// values refused by their key, values that contradict each other. The error
// wraps kerr.InvalidConfig.
func ValidateTopic(overrides map[string]string) error {
	if err := validateEach(Topic(), overrides); err != nil {
		return err
	}
	value := func(name string) int64 { return number(Topic(), overrides, name) }
	switch {
	case value("min.compaction.lag.ms") > value("max.compaction.lag.ms"):
		return invalid("min.compaction.lag.ms (%d) is above max.compaction.lag.ms (%d)", value("min.compaction.lag.ms"), value("max.compaction.lag.ms"))
	case strings.EqualFold(strings.TrimSpace(overrides["remote.storage.enable"]), "true"):
		return invalid("remote.storage.enable: this cluster has no tiered storage")
	}
	return nil
}

// ValidateBroker reports why these dynamic broker values cannot be set, for one
// node (perBroker) or for all of them. A key that needs a restart, or that
// belongs to one node only, is refused with kerr.InvalidRequest; an unknown key
// or a bad value with kerr.InvalidConfig.
func ValidateBroker(values map[string]string, perBroker bool) error {
	var readOnly, single []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		k, ok := Broker().Lookup(name)
		switch {
		case !ok:
		case k.Update == config.ReadOnly:
			readOnly = append(readOnly, name)
		case k.Update == config.PerBroker && !perBroker:
			single = append(single, name)
		}
	}
	switch {
	case readOnly != nil:
		return &Error{kerr.InvalidRequest, "cannot be changed while a node runs: " + strings.Join(readOnly, ", ")}
	case single != nil:
		return &Error{kerr.InvalidRequest, "can only be set for a single node: " + strings.Join(single, ", ")}
	}
	return validateEach(Broker(), values)
}

// ValidateGroup reports why a group cannot have these overrides; the limits
// that the broker keys group.*.min.* and group.*.max.* set are part of it. The
// error wraps kerr.InvalidConfig.
func (l Layers) ValidateGroup(overrides map[string]string) error {
	if err := validateEach(Group(), overrides); err != nil {
		return err
	}
	effective := l.GroupConfig(overrides)
	for _, name := range slices.Sorted(maps.Keys(effective)) {
		// A limit of consumer.session.timeout.ms is called group.consumer.min.session.timeout.ms.
		kind, rest, _ := strings.Cut(name, ".")
		rest = strings.TrimPrefix(rest, "num.") // streams.num.standby.replicas is limited by max.standby.replicas
		n, err := strconv.ParseInt(effective[name], 10, 64)
		if err != nil {
			continue
		}
		if least, ok := l.limit("group." + kind + ".min." + rest); ok && n < least {
			return invalid("%s: %d is below the cluster's least value %d", name, n, least)
		}
		if most, ok := l.limit("group." + kind + ".max." + rest); ok && n > most {
			return invalid("%s: %d is above the cluster's greatest value %d", name, n, most)
		}
	}
	for _, kind := range []string{"consumer", "share", "streams"} {
		heartbeat, session := kind+".heartbeat.interval.ms", kind+".session.timeout.ms"
		h, _ := strconv.ParseInt(effective[heartbeat], 10, 64)
		s, _ := strconv.ParseInt(effective[session], 10, 64)
		if s <= h {
			return invalid("%s (%d) must be above %s (%d)", session, s, heartbeat, h)
		}
	}
	return nil
}

func (l Layers) limit(name string) (int64, bool) {
	if _, ok := Broker().Lookup(name); !ok {
		return 0, false
	}
	text, ok := l.Lookup(name)
	n, err := strconv.ParseInt(text, 10, 64)
	return n, ok && err == nil
}

// ValidateClientMetrics reports why a client-metrics subscription cannot have
// these values. The error wraps kerr.InvalidConfig.
func ValidateClientMetrics(values map[string]string) error {
	return validateEach(ClientMetrics(), values)
}

func validateEach(schema *config.Schema, values map[string]string) error {
	var faults []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if f := schema.Check(name, values[name]); f != nil {
			faults = append(faults, f.Error())
		}
	}
	if faults == nil {
		return nil
	}
	return &Error{kerr.InvalidConfig, strings.Join(faults, "; ")}
}

func number(schema *config.Schema, values map[string]string, name string) int64 {
	text, ok := values[name]
	if !ok {
		text = schema.Defaults().Get(name)
	}
	n, _ := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return n
}

func invalid(format string, args ...any) error {
	return &Error{kerr.InvalidConfig, fmt.Sprintf(format, args...)}
}
