package cluster

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/config"
	"github.com/cauce-stream/cauce/libs/metadata"
)

// alterConfigs decides AlterConfigs, key 33, versions 0 to 2. It replaces all
// overrides of a resource: a key that is not named is removed.
func alterConfigs(im *metadata.Image, env Env, req *kmsg.AlterConfigsRequest) Outcome {
	resp := req.ResponseKind().(*kmsg.AlterConfigsResponse)
	e := &configEditor{im: im, layers: layers(im, env)}
	keys := make([]resourceKey, len(req.Resources))
	for i, r := range req.Resources {
		keys[i] = resourceKey{int8(r.ResourceType), r.ResourceName}
	}
	twice := repeated(keys)
	for i := range req.Resources {
		r := &req.Resources[i]
		var err error = errResourceTwice
		if !twice[keys[i]] {
			err = e.replace(r)
		}
		res := kmsg.NewAlterConfigsResponseResource()
		res.ResourceType, res.ResourceName = r.ResourceType, r.ResourceName
		res.ErrorCode, res.ErrorMessage = answer(err)
		resp.Resources = append(resp.Resources, res)
	}
	if req.ValidateOnly {
		return Outcome{Response: resp}
	}
	return Outcome{Response: resp, Records: e.records}
}

func (e *configEditor) replace(r *kmsg.AlterConfigsRequestResource) error {
	var names, nulls []string
	for _, c := range r.Configs {
		names = append(names, c.Name)
		if c.Value == nil {
			nulls = append(nulls, c.Name)
		}
	}
	if err := checkKeys(names, nulls); err != nil {
		return err
	}
	resource := metadata.Resource{Type: metadata.ConfigResourceType(r.ResourceType), Name: r.ResourceName}
	// Log levels never had this request.
	if resource.Type == metadata.BrokerLoggerConfig {
		return unknownResource(resource.Type)
	}
	if err := checkResourceType(resource.Type); err != nil {
		return err
	}
	var edits []configEdit
	for _, c := range r.Configs {
		value := tidy(resource.Type, c.Name, *c.Value)
		edits = append(edits, configEdit{c.Name, &value})
	}
	for _, key := range without(sortedKeys(e.im.Config(resource)), names) {
		edits = append(edits, configEdit{key: key})
	}
	return e.edit(resource, edits)
}

// incrementalAlterConfigs decides IncrementalAlterConfigs, key 44, versions 0
// and 1 (KIP-339). It touches only the keys that are named.
func incrementalAlterConfigs(im *metadata.Image, env Env, req *kmsg.IncrementalAlterConfigsRequest) Outcome {
	resp := req.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
	e := &configEditor{im: im, layers: layers(im, env)}
	keys := make([]resourceKey, len(req.Resources))
	for i, r := range req.Resources {
		keys[i] = resourceKey{int8(r.ResourceType), r.ResourceName}
	}
	twice := repeated(keys)
	for i := range req.Resources {
		r := &req.Resources[i]
		var err error = errResourceTwice
		if !twice[keys[i]] {
			err = e.amend(r)
		}
		res := kmsg.NewIncrementalAlterConfigsResponseResource()
		res.ResourceType, res.ResourceName = r.ResourceType, r.ResourceName
		res.ErrorCode, res.ErrorMessage = answer(err)
		resp.Resources = append(resp.Resources, res)
	}
	if req.ValidateOnly {
		return Outcome{Response: resp}
	}
	return Outcome{Response: resp, Records: e.records}
}

func (e *configEditor) amend(r *kmsg.IncrementalAlterConfigsRequestResource) error {
	var names, nulls []string
	for _, c := range r.Configs {
		names = append(names, c.Name)
		if c.Value == nil && c.Op != kmsg.IncrementalAlterConfigOpDelete {
			nulls = append(nulls, c.Name)
		}
	}
	if err := checkKeys(names, nulls); err != nil {
		return err
	}
	resource := metadata.Resource{Type: metadata.ConfigResourceType(r.ResourceType), Name: r.ResourceName}
	if err := checkResourceType(resource.Type); err != nil {
		return err
	}
	var edits []configEdit
	for _, c := range r.Configs {
		edit, err := e.operation(resource, c)
		if err != nil {
			return err
		}
		if edit != nil {
			edits = append(edits, *edit)
		}
	}
	return e.edit(resource, edits)
}

// operation is what one operation does to its key; nil when it does nothing.
func (e *configEditor) operation(r metadata.Resource, c kmsg.IncrementalAlterConfigsRequestResourceConfig) (*configEdit, error) {
	if r.Type == metadata.BrokerLoggerConfig {
		return loggerOperation(c)
	}
	switch c.Op {
	case kmsg.IncrementalAlterConfigOpSet:
		value := tidy(r.Type, c.Name, *c.Value)
		return &configEdit{c.Name, &value}, nil
	case kmsg.IncrementalAlterConfigOpDelete:
		return &configEdit{key: c.Name}, nil
	case kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
		return e.listOperation(r, c)
	}
	return nil, unknownOperation(c.Op)
}

func unknownOperation(op kmsg.IncrementalAlterConfigOp) error {
	return refuse(kerr.InvalidRequest, "Unknown operations type %d", op)
}

// listOperation appends to a list or subtracts from it. A list that is not set
// starts as the key's default, as in Kafka.
func (e *configEditor) listOperation(r metadata.Resource, c kmsg.IncrementalAlterConfigsRequestResourceConfig) (*configEdit, error) {
	k, ok := keyOf(r.Type, c.Name)
	if !ok || k.Type != config.List {
		return nil, refuse(kerr.InvalidConfig, "Can't %s to key %s because its type is not LIST.", c.Op, c.Name)
	}
	text, set := e.im.Config(r)[c.Name]
	if !set {
		text = k.Default
	}
	list := distinct(config.Elements(text))
	if c.Op == kmsg.IncrementalAlterConfigOpAppend {
		value := joinedList(distinct(slices.Concat(list, config.Elements(*c.Value))))
		return &configEdit{c.Name, &value}, nil
	}
	left := without(list, config.Elements(*c.Value))
	if len(left) == len(list) {
		return nil, nil // nothing to subtract must not turn a default into an override
	}
	value := joinedList(left)
	return &configEdit{c.Name, &value}, nil
}

// loggerOperation sets or resets a log level (KIP-412).
func loggerOperation(c kmsg.IncrementalAlterConfigsRequestResourceConfig) (*configEdit, error) {
	switch c.Op {
	case kmsg.IncrementalAlterConfigOpSet:
		return &configEdit{c.Name, c.Value}, nil
	case kmsg.IncrementalAlterConfigOpDelete:
		if c.Name == "root" {
			return nil, refuse(kerr.InvalidRequest, "Removing the log level of the root logger is not allowed")
		}
		return &configEdit{key: c.Name}, nil
	case kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
		return nil, refuse(kerr.InvalidRequest, "%s operation is not allowed for the BROKER_LOGGER resource", c.Op)
	}
	return nil, unknownOperation(c.Op)
}
