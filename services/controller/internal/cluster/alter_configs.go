package cluster

import (
	"github.com/twmb/franz-go/pkg/kmsg"

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
