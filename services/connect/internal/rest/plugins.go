package rest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/services/connect/internal/herder"
)

func (h *handler) routePlugins() {
	h.route("/connector-plugins", map[string]call{http.MethodGet: h.plugins})
	h.route("/connector-plugins/{name}/config", map[string]call{http.MethodGet: h.pluginConfig})
	h.route("/connector-plugins/{name}/config/validate", map[string]call{http.MethodPut: h.validate})
}

func (h *handler) plugins(_ context.Context, r *http.Request, _ []byte) (reply, error) {
	plugins := slices.Clone(h.deps.Plugins())
	if query := r.URL.Query(); !query.Has("connectorsOnly") || strings.EqualFold(query.Get("connectorsOnly"), "true") {
		plugins = slices.DeleteFunc(plugins, func(p Plugin) bool { return p.Type != "source" && p.Type != "sink" })
	}
	return reply{status: http.StatusOK, body: append([]Plugin{}, plugins...)}, nil
}

func (h *handler) pluginConfig(_ context.Context, r *http.Request, _ []byte) (reply, error) {
	name := r.PathValue("name")
	definition, ok := h.deps.PluginConfig(name)
	if !ok {
		return reply{}, fmt.Errorf("%w: plugin %q", herder.ErrNotFound, name)
	}
	body := []any{}
	for i := range definition {
		body = append(body, keyBody(&definition[i]))
	}
	return reply{status: http.StatusOK, body: body}, nil
}

func (h *handler) validate(ctx context.Context, r *http.Request, body []byte) (reply, error) {
	c, err := decodeConfig(body)
	if err != nil {
		return reply{}, err
	}
	name := r.PathValue("name")
	if class := c["connector.class"]; class != "" && !sameClass(class, name) {
		return reply{}, fmt.Errorf("%w: the configuration is for %q, the request for %q", herder.ErrInvalid, class, name)
	}
	v, err := h.deps.Herder.Validate(ctx, c)
	if err != nil {
		return reply{}, err
	}
	keys := []any{}
	for _, value := range v.Values {
		var definition any
		if k := v.Definition.Find(value.Name); k != nil {
			definition = keyBody(k)
		}
		keys = append(keys, map[string]any{"definition": definition, "value": map[string]any{
			"name": value.Name, "value": value.Value, "recommended_values": list(value.Recommended), "errors": list(value.Errors), "visible": value.Visible,
		}})
	}
	return reply{status: http.StatusOK, body: map[string]any{"name": v.Name, "error_count": len(v.Errors()), "groups": list(v.Groups), "configs": keys}}, nil
}

// sameClass says whether two names can be of one connector: a full class name, its last part, or that without Connector at its end.
func sameClass(a, b string) bool {
	a, b = short(a), short(b)
	return a == b || strings.HasSuffix(a, "."+b) || strings.HasSuffix(b, "."+a)
}

func short(class string) string {
	if trimmed := strings.TrimSuffix(class, "Connector"); trimmed != "" && !strings.HasSuffix(trimmed, ".") {
		return trimmed
	}
	return class
}

// keyBody describes a key as Kafka's ConfigDef does.
func keyBody(k *configdef.Key) any {
	group, order := any(nil), -1
	if k.Group != "" {
		group, order = k.Group, k.Order
	}
	display, width := k.DisplayName, k.Width
	if display == "" {
		display = k.Name
	}
	if width == "" {
		width = configdef.NoWidth
	}
	return map[string]any{
		"name": k.Name, "type": k.Type, "required": k.Required, "default_value": k.Default, "importance": k.Importance, "documentation": k.Doc,
		"group": group, "order_in_group": order, "width": width, "display_name": display, "dependents": list(k.Dependents),
	}
}

// list is never null.
func list(values []string) []string {
	if values == nil {
		return []string{}
	}
	return values
}
