package rest

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
)

// Config is the configuration of a connector.
type Config = map[string]string

// Info is a connector as it is configured.
type Info struct {
	Name   string `json:"name"`
	Type   string `json:"type"` // source, sink, unknown
	Config Config `json:"config"`
	Tasks  []struct {
		Task int `json:"task"`
	} `json:"tasks"`
}

// State is how a connector or a task is.
type State struct {
	State   string `json:"state"` // RUNNING, PAUSED, STOPPED, FAILED, UNASSIGNED, RESTARTING
	Worker  string `json:"worker_id"`
	Version string `json:"version,omitempty"`
	Trace   string `json:"trace,omitempty"`
}

// TaskState is how a task is.
type TaskState struct {
	ID int `json:"id"`
	State
}

// Status is how a connector and its tasks are.
type Status struct {
	Name      string      `json:"name"`
	Type      string      `json:"type"`
	Connector State       `json:"connector"`
	Tasks     []TaskState `json:"tasks"`
}

// Offset is where a connector stands: both are JSON objects, the second null for a place that is forgotten.
type Offset struct {
	Partition json.RawMessage `json:"partition"`
	Offset    json.RawMessage `json:"offset"`
}

// Plugin is one that configurations can name.
type Plugin struct {
	Class   string `json:"class"`
	Type    string `json:"type"`
	Version string `json:"version,omitempty"`
}

// Key is a key of a configuration.
type Key struct {
	Name          string  `json:"name"`
	Type          string  `json:"type"`
	Required      bool    `json:"required"`
	Default       *string `json:"default_value"`
	Importance    string  `json:"importance"`
	Documentation string  `json:"documentation"`
}

// Value is what there is to say of a key's value.
type Value struct {
	Name        string   `json:"name"`
	Value       *string  `json:"value"`
	Recommended []string `json:"recommended_values"`
	Errors      []string `json:"errors"`
}

func path(name, rest string) string { return "/connectors/" + url.PathEscape(name) + rest }

// Connectors are the names of all connectors.
func (c *Client) Connectors(ctx context.Context) (names []string, err error) {
	return names, c.Call(ctx, http.MethodGet, "/connectors", nil, &names)
}

// Expanded is a connector with all that is known of it. A part is empty that no worker has said anything of yet.
type Expanded struct {
	Status Status
	Info   Info
}

// Expanded are all connectors.
func (c *Client) Expanded(ctx context.Context) (all map[string]Expanded, err error) {
	return all, c.Call(ctx, http.MethodGet, "/connectors?expand=status&expand=info", nil, &all)
}

// Info describes a connector.
func (c *Client) Info(ctx context.Context, name string) (i Info, err error) {
	return i, c.Call(ctx, http.MethodGet, path(name, ""), nil, &i)
}

// Status says how a connector is.
func (c *Client) Status(ctx context.Context, name string) (s Status, err error) {
	return s, c.Call(ctx, http.MethodGet, path(name, "/status"), nil, &s)
}

// Create makes a connector, in an initial state if it is not empty.
func (c *Client) Create(ctx context.Context, name string, config Config, initial string) (i Info, err error) {
	body := map[string]any{"name": name, "config": config}
	if initial != "" {
		body["initial_state"] = initial
	}
	return i, c.Call(ctx, http.MethodPost, "/connectors", body, &i)
}

// Put sets the whole configuration of a connector, be it there or not.
func (c *Client) Put(ctx context.Context, name string, config Config) (i Info, err error) {
	return i, c.Call(ctx, http.MethodPut, path(name, "/config"), config, &i)
}

// Patch changes keys of a connector's configuration; nil takes a key away.
func (c *Client) Patch(ctx context.Context, name string, patch map[string]*string) (i Info, err error) {
	return i, c.Call(ctx, http.MethodPatch, path(name, "/config"), patch, &i)
}

// Delete takes a connector away.
func (c *Client) Delete(ctx context.Context, name string) error {
	return c.Call(ctx, http.MethodDelete, path(name, ""), nil, nil)
}

// Target has a connector pause, resume or stop, which are its words.
func (c *Client) Target(ctx context.Context, name, what string) error {
	return c.Call(ctx, http.MethodPut, path(name, "/"+what), nil, nil)
}

// Restart starts a connector again, without its tasks unless they are included, and of all that only what has failed if so asked.
func (c *Client) Restart(ctx context.Context, name string, includeTasks, onlyFailed bool) error {
	query := url.Values{}
	if includeTasks {
		query.Set("includeTasks", "true")
	}
	if onlyFailed {
		query.Set("onlyFailed", "true")
	}
	rest := "/restart"
	if len(query) > 0 {
		rest += "?" + query.Encode()
	}
	return c.Call(ctx, http.MethodPost, path(name, rest), nil, nil)
}

// RestartTask starts a task again.
func (c *Client) RestartTask(ctx context.Context, name, task string) error {
	return c.Call(ctx, http.MethodPost, path(name, "/tasks/"+url.PathEscape(task)+"/restart"), nil, nil)
}

type offsets struct {
	Offsets []Offset `json:"offsets"`
}

// Offsets are where a connector stands.
func (c *Client) Offsets(ctx context.Context, name string) ([]Offset, error) {
	var body offsets
	err := c.Call(ctx, http.MethodGet, path(name, "/offsets"), nil, &body)
	return body.Offsets, err
}

type message struct {
	Message string `json:"message"`
}

// SetOffsets changes where a stopped connector stands, and returns what the worker says of it.
func (c *Client) SetOffsets(ctx context.Context, name string, list []Offset) (string, error) {
	var m message
	err := c.Call(ctx, http.MethodPatch, path(name, "/offsets"), offsets{list}, &m)
	return m.Message, err
}

// ResetOffsets forgets where a stopped connector stands, and returns what the worker says of it.
func (c *Client) ResetOffsets(ctx context.Context, name string) (string, error) {
	var m message
	err := c.Call(ctx, http.MethodDelete, path(name, "/offsets"), nil, &m)
	return m.Message, err
}

// Plugins are the connectors that there are, and with all converters, transforms and predicates as well.
func (c *Client) Plugins(ctx context.Context, all bool) (list []Plugin, err error) {
	where := "/connector-plugins"
	if all {
		where += "?connectorsOnly=false"
	}
	return list, c.Call(ctx, http.MethodGet, where, nil, &list)
}

// Keys are those of a plugin's configuration.
func (c *Client) Keys(ctx context.Context, class string) (keys []Key, err error) {
	return keys, c.Call(ctx, http.MethodGet, "/connector-plugins/"+url.PathEscape(class)+"/config", nil, &keys)
}

// Validate returns what there is to say of each value of a configuration, which names a class.
func (c *Client) Validate(ctx context.Context, config Config) ([]Value, error) {
	var body struct {
		Configs []struct{ Value *Value }
	}
	err := c.Call(ctx, http.MethodPut, "/connector-plugins/"+url.PathEscape(config["connector.class"])+"/config/validate", config, &body)
	var values []Value
	for _, one := range body.Configs {
		if one.Value != nil {
			values = append(values, *one.Value)
		}
	}
	return values, err
}
