package httpapi

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/plugins/connectors/internal/form"
)

// The keys of the sink.
const (
	methodKey      = "request.method"
	contentTypeKey = "request.content.type"
	nullsKey       = "behavior.on.null.values"
	batchKey       = "batch.max.size"
	batchBytesKey  = "batch.max.bytes"
	prefixKey      = "batch.prefix"
	suffixKey      = "batch.suffix"
	separatorKey   = "batch.separator"

	nullsIgnore = "ignore"
	nullsDelete = "delete"
	nullsFail   = "fail"

	sinkURLDoc = "Where to send records. `${topic}` and `${key}` in its path and its parameters are replaced by those of the record, escaped. Required, here or as `" + urlAliasKey + "`."
	escapesDoc = " `\\n` stands for a line break, `\\t` for a tab."
)

var sinkDefinition = form.Define(
	form.Group{Name: connectionGroup, Keys: append(configdef.Definition{
		{Name: urlKey, Type: configdef.String, Importance: configdef.High, Doc: sinkURLDoc},
		{Name: urlAliasKey, Type: configdef.String, Importance: configdef.Low, Doc: "Another name of `" + urlKey + "`."},
		{Name: methodKey, Type: configdef.String, Default: new(http.MethodPost), Importance: configdef.High, Doc: "The method of requests.",
			Valid: configdef.Rule{OneOf: []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}, IgnoreCase: true}},
		{Name: contentTypeKey, Type: configdef.String, Default: new("application/json"), Importance: configdef.Medium, Doc: "The `Content-Type` of requests.",
			Valid: nonEmpty, Recommended: []string{"application/json", "application/x-ndjson", "text/plain", "application/octet-stream"}},
		{Name: nullsKey, Type: configdef.String, Default: new(nullsIgnore), Importance: configdef.Medium,
			Doc:   "What becomes of a record without a value: nothing, a DELETE of the URL, which then must have `${key}`, or a fault of the record.",
			Valid: configdef.Rule{OneOf: []string{nullsIgnore, nullsDelete, nullsFail}, IgnoreCase: true}},
	}, connectionKeys...)},
	form.Group{Name: securityGroup, Keys: securityKeys},
	form.Group{Name: "Batches", Keys: configdef.Definition{
		{Name: batchKey, Type: configdef.Int, Default: new("1"), Importance: configdef.High,
			Doc:        "At most so many records, of one partition and one URL, are sent by one request. With 1 each record is sent as it is.",
			Valid:      configdef.Rule{Min: new(1.0), Max: new(100_000.0)},
			Dependents: []string{batchBytesKey, prefixKey, suffixKey, separatorKey}},
		{Name: batchBytesKey, Type: configdef.Int, Default: new("1048576"), Importance: configdef.Low, Doc: "At most so many bytes of records, where one alone has no more.",
			Valid: configdef.Rule{Min: new(1.0), Max: new(256.0 * (1 << 20))}},
		{Name: prefixKey, Type: configdef.String, Default: new("["), Importance: configdef.Medium, Doc: "What is before the records of a batch." + escapesDoc},
		{Name: suffixKey, Type: configdef.String, Default: new("]"), Importance: configdef.Medium, Doc: "What is behind the records of a batch." + escapesDoc},
		{Name: separatorKey, Type: configdef.String, Default: new(","), Importance: configdef.Medium, Doc: "What is between two records of a batch." + escapesDoc},
	}},
	form.Group{Name: retryGroup, Keys: retryKeys},
)

// Sink sends records by HTTP.
type Sink struct{}

// Info names it "http-sink".
func (Sink) Info() plugin.Info {
	return plugin.Info{Name: "http-sink", Version: "1.0.0",
		Doc: "Sends records to a URL: texts and bytes as they are, all else as JSON. A record that is refused with a status 4xx, other than those to try again " +
			"and 401 and 407, is a fault of the record; of a batch that is refused it finds which. The header `Idempotency-Key` is the topic, the partition and the offset " +
			"of what is sent, as `orders-0-17`, of a batch the first and the last offset, as `orders-0-17-25`: records may come again after a failure. " +
			"A record's `traceparent` and `tracestate` are passed on."}
}

// Definition is the keys of its configuration.
func (Sink) Definition() configdef.Definition { return sinkDefinition }

// Validate checks the URL, the headers, the status codes and the credentials.
func (Sink) Validate(_ context.Context, config map[string]string) ([]configdef.Finding, error) {
	v, err := sinkDefinition.Parse(config)
	if err != nil {
		return nil, err
	}
	return checkSink(v), nil
}

func checkSink(v configdef.Values) form.Findings {
	f := check(v)
	to, err := parseTarget(urlText(v), topicName, keyName)
	f.Add(urlKey, err)
	if err == nil && !to.has(keyName) && strings.EqualFold(v.String(nullsKey), nullsDelete) {
		f.Add(nullsKey, errors.New("without ${key} in "+urlKey+" every DELETE would be of the same"))
	}
	if !validHeader(v.String(contentTypeKey)) {
		f.Add(contentTypeKey, errors.New("it has characters that no header may have"))
	}
	if v.Int(batchKey) == 1 {
		f.Hide(batchBytesKey, prefixKey, suffixKey, separatorKey)
	}
	return f
}

// TaskConfigs returns as many as are allowed.
func (Sink) TaskConfigs(_ context.Context, config map[string]string, maxTasks int) ([]map[string]string, error) {
	return slices.Repeat([]map[string]string{config}, maxTasks), nil
}

// AlterOffsets has nothing to do: there are no offsets besides Cauce's.
func (Sink) AlterOffsets(context.Context, map[string]string, map[plugin.TopicPartition]int64) (bool, error) {
	return true, nil
}

// NewSinkTask returns a task.
func (Sink) NewSinkTask() plugin.SinkTask { return &sinkTask{} }
