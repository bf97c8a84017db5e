package definition

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/cauce-stream/cauce/libs/config"
	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/services/connect/internal/clientconfig"
	"github.com/cauce-stream/cauce/services/connect/internal/herder"
	"github.com/cauce-stream/cauce/services/connect/internal/topiccreation"
)

// What begins so in a connector's configuration are properties of its clients.
const (
	producerOverride = "producer.override."
	consumerOverride = "consumer.override."
	adminOverride    = "admin.override."
)

const (
	policyKey    = "connector.client.config.override.policy"
	allowlistKey = "connector.client.config.override.allowlist"
)

// policies say which properties of clients a connector may set (KIP-458).
var policies = map[string]func(w Worker, property string) bool{
	"All":  func(Worker, string) bool { return true },
	"None": func(Worker, string) bool { return false },
	"Principal": func(_ Worker, property string) bool {
		return slices.Contains([]string{"sasl.jaas.config", "sasl.mechanism", "security.protocol"}, property)
	},
	"Allowlist": func(w Worker, property string) bool { return slices.Contains(w.Config.List(allowlistKey), property) },
}

// policy is the short name of the worker's policy.
func (w Worker) policy() string {
	class := w.Config.String(policyKey)
	return strings.TrimSuffix(class[strings.LastIndexByte(class, '.')+1:], "ConnectorClientConfigOverridePolicy")
}

// overrides are the properties of the clients that a connector has.
func (w Worker) overrides(of herder.Type, config map[string]string) []configdef.Value {
	var values []configdef.Value
	for _, prefix := range clients(of, config) {
		for _, property := range slices.Sorted(maps.Keys(below(config, prefix))) {
			v := configdef.Value{Name: prefix + property, Value: new(config[prefix+property]), Visible: true}
			if secret(property) {
				v.Value = new(configdef.Hidden)
			}
			values = append(values, v)
		}
	}
	return values
}

func (w Worker) checkOverrides(f *faults, of herder.Type, config map[string]string) {
	allows, ok := policies[w.policy()]
	for _, prefix := range clients(of, config) {
		overrides := below(config, prefix)
		for _, property := range slices.Sorted(maps.Keys(overrides)) {
			switch {
			case !ok:
				f.add(prefix+property, "is not allowed: there is no policy %q, which the worker has as %s", w.Config.String(policyKey), policyKey)
			case !allows(w, property):
				f.add(prefix+property, "is not allowed by the worker, whose %s is %s", policyKey, w.policy())
			default:
				continue
			}
			delete(overrides, property)
		}
		for _, fault := range w.unusable(prefix, overrides) {
			f.add(prefix+fault.Name, "is %q: %s", fault.Value, fault.Reason)
		}
	}
}

// unusable are those of a connector's properties that its client will refuse, beside what the worker has for such clients. Properties of security go together,
// and may be in files of the worker that runs the task: that one tries them, but for a protocol that is none.
func (w Worker) unusable(prefix string, overrides map[string]string) (refused config.Faults) {
	const protocol = "security.protocol"
	if text, given := overrides[protocol]; given && !slices.Contains(clientconfig.SecurityProtocols, strings.ToUpper(strings.TrimSpace(text))) {
		reason := "not among " + strings.Join(clientconfig.SecurityProtocols, ", ")
		refused = append(refused, &config.Fault{Name: protocol, Value: text, Reason: reason})
	}
	p := clientconfig.Properties(w.Config.Family(strings.TrimSuffix(prefix, "override.")))
	maps.Copy(p, overrides)
	maps.DeleteFunc(p, func(property, _ string) bool {
		return slices.ContainsFunc([]string{"security.", "sasl.", "ssl."}, func(family string) bool { return strings.HasPrefix(property, family) })
	})
	_, err := p.Common()
	switch prefix {
	case producerOverride:
		_, err = p.Producer()
	case consumerOverride:
		_, err = p.Consumer()
	}
	var found config.Faults
	if errors.As(err, &found) {
		for _, fault := range found {
			if _, own := overrides[fault.Name]; own {
				refused = append(refused, fault)
			}
		}
	}
	return refused
}

// clients are the prefixes of the clients that a connector has with a configuration.
func clients(of herder.Type, config map[string]string) []string {
	separate := config[offsetsTopicKey] != ""
	switch deadLetters := strings.TrimSpace(config[deadLetterKey]) != ""; {
	case of == herder.Source && separate:
		return []string{producerOverride, adminOverride, consumerOverride}
	case of == herder.Source && topiccreation.Used(config):
		return []string{producerOverride, adminOverride}
	case of == herder.Source:
		return []string{producerOverride}
	case deadLetters:
		return []string{producerOverride, adminOverride, consumerOverride}
	}
	return []string{consumerOverride}
}

// secret says whether a property of Kafka's clients is a password.
func secret(property string) bool {
	return slices.ContainsFunc([]string{"password", "secret", "jaas", "keystore.key"}, func(part string) bool { return strings.Contains(property, part) })
}
