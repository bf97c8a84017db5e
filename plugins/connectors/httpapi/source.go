package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/plugins/connectors/internal/form"
)

// The keys of the source.
const (
	topicKey         = "topic"
	intervalKey      = "poll.interval.ms"
	recordsKey       = "records.path"
	valuesKey        = "value.format"
	keyPointerKey    = "key.pointer"
	offsetPointerKey = "offset.pointer"
	cursorPointerKey = "cursor.pointer"
	initialKey       = "offset.initial"
	parameterKey     = "offset.parameter"
	paginationKey    = "pagination"
	pagePointerKey   = "next.page.pointer"
	pageParameterKey = "next.page.parameter"
	answerBytesKey   = "response.max.bytes"
	pollBatchKey     = "batch.size"

	valuesJSON = "json"
	valuesText = "string"

	pagesNone    = "none"
	pagesLink    = "link"
	pagesPointer = "pointer"
)

var sourceDefinition = form.Define(
	form.Group{Name: connectionGroup, Keys: append(configdef.Definition{
		{Name: urlKey, Type: configdef.String, Importance: configdef.High,
			Doc: "What to poll. `${offset}` in its path and its parameters is replaced by the offset, escaped. Required, here or as `" + urlAliasKey + "`."},
		{Name: urlAliasKey, Type: configdef.String, Importance: configdef.Low, Doc: "Another name of `" + urlKey + "`."},
		{Name: topicKey, Type: configdef.String, Required: true, Importance: configdef.High, Doc: "The topic to write to.", Valid: nonEmpty},
		{Name: intervalKey, Type: configdef.Int, Default: new("5000"), Importance: configdef.Medium,
			Doc: "How long, in milliseconds, to wait until the next turn when all pages of one are read.", Valid: configdef.Rule{Min: new(1.0)}},
	}, connectionKeys...)},
	form.Group{Name: securityGroup, Keys: securityKeys},
	form.Group{Name: "Answers", Keys: configdef.Definition{
		{Name: recordsKey, Type: configdef.String, Default: new(""), Importance: configdef.High,
			Doc: "The JSON pointer, as `/data/items`, of the array of records in an answer; empty when it is the answer. An object in its place is one record."},
		{Name: valuesKey, Type: configdef.String, Default: new(valuesJSON), Importance: configdef.Medium,
			Doc: "What values are: maps, lists, numbers and so on without a schema, or the text of the JSON as it came.", Valid: configdef.Rule{OneOf: []string{valuesJSON, valuesText}}},
		{Name: keyPointerKey, Type: configdef.String, Importance: configdef.Medium, Doc: "The JSON pointer of a record's key in the record. Keys are texts; without one at its place a record has no key."},
		{Name: answerBytesKey, Type: configdef.Int, Default: new("33554432"), Importance: configdef.Low, Doc: "At most so many bytes are read of an answer; the task fails when one has more.",
			Valid: configdef.Rule{Min: new(1.0), Max: new(256.0 * (1 << 20))}},
		{Name: pollBatchKey, Type: configdef.Int, Default: new("500"), Importance: configdef.Low, Doc: "At most so many records of an answer come at once.",
			Valid: configdef.Rule{Min: new(1.0), Max: new(100_000.0)}},
	}},
	form.Group{Name: "Offsets", Keys: configdef.Definition{
		{Name: offsetPointerKey, Type: configdef.String, Importance: configdef.High, Dependents: []string{initialKey, parameterKey},
			Doc: "The JSON pointer of a record's offset in the record: the next turn is asked for what comes after the last record's. Records must come in the order of their offsets."},
		{Name: cursorPointerKey, Type: configdef.String, Importance: configdef.High,
			Doc: "The JSON pointer, in the answer, of the offset for the next turn, in the place of `" + offsetPointerKey + "`. Without either each turn brings all records again, unless `ETag` or `Last-Modified` shows that nothing has changed."},
		{Name: initialKey, Type: configdef.String, Default: new(""), Importance: configdef.Medium, Doc: "The offset of the first turn."},
		{Name: parameterKey, Type: configdef.String, Importance: configdef.Medium, Doc: "The parameter of the URL that has the offset, in the place of `${offset}`; it is left out while there is none.", Valid: nonEmpty},
		{Name: paginationKey, Type: configdef.String, Default: new(pagesNone), Importance: configdef.Medium,
			Doc:   "How an answer tells of the next page of a turn: not, by the `Link` of the relation `next`, or at `" + pagePointerKey + "`. Pages are of the same host.",
			Valid: configdef.Rule{OneOf: []string{pagesNone, pagesLink, pagesPointer}}, Dependents: []string{pagePointerKey, pageParameterKey}},
		{Name: pagePointerKey, Type: configdef.String, Importance: configdef.Medium,
			Doc: "The JSON pointer, in the answer, of the next page: of its URL, or with `" + pageParameterKey + "` of the value of that parameter. Nothing there, null, false and the empty text say that there is none.", Valid: nonEmpty},
		{Name: pageParameterKey, Type: configdef.String, Importance: configdef.Medium, Doc: "The parameter of the URL that has the next page.", Valid: nonEmpty},
	}},
	form.Group{Name: retryGroup, Keys: retryKeys},
)

// Source polls a URL.
type Source struct{}

// Info names it "http-source".
func (Source) Info() plugin.Info {
	return plugin.Info{Name: "http-source", Version: "1.0.0",
		Doc: "Polls a URL whose answers are JSON, and reads their records. What is kept with each record is the request that it came by and its place in the answer: " +
			"after a restart the same request is sent again, and what was stored of its answer is skipped. With an offset, and a server that answers the same to the same, records are there once."}
}

// Definition is the keys of its configuration.
func (Source) Definition() configdef.Definition { return sourceDefinition }

// Validate checks the URL, the pointers, and what belongs together.
func (Source) Validate(_ context.Context, config map[string]string) ([]configdef.Finding, error) {
	v, err := sourceDefinition.Parse(config)
	if err != nil {
		return nil, err
	}
	return checkSource(v), nil
}

func checkSource(v configdef.Values) form.Findings {
	f := check(v)
	to, err := parseTarget(urlText(v), offsetName)
	f.Add(urlKey, err)
	for _, key := range []string{recordsKey, keyPointerKey, offsetPointerKey, cursorPointerKey, pagePointerKey} {
		_, err := parsePointer(v.String(key))
		f.Add(key, err)
	}
	if err != nil {
		return f
	}
	moves, asked := v.Has(offsetPointerKey) || v.Has(cursorPointerKey), to.has(offsetName) || v.Has(parameterKey)
	switch {
	case v.Has(offsetPointerKey) && v.Has(cursorPointerKey):
		f.Add(cursorPointerKey, errors.New("there is "+offsetPointerKey+", too"))
	case moves && !asked:
		f.Add(urlKey, errors.New("offsets are read, and neither ${offset} in it nor "+parameterKey+" asks for one"))
	case asked && !moves:
		f.Add(urlKey, errors.New("it asks for an offset, and neither "+offsetPointerKey+" nor "+cursorPointerKey+" says where it is"))
	case to.has(offsetName) && v.Has(parameterKey):
		f.Add(parameterKey, errors.New("${offset} is in "+urlKey+", too"))
	case to.path.Has(offsetName) && v.String(initialKey) == "":
		f.Add(initialKey, errors.New("${offset} is in the path, which needs one from the first turn on"))
	}
	if pages := v.String(paginationKey); pages != pagesPointer {
		f.Hide(pagePointerKey, pageParameterKey)
	} else if !v.Has(pagePointerKey) {
		f.Add(pagePointerKey, errors.New(paginationKey+"="+pages+" needs it"))
	}
	return f
}

// TaskConfigs returns one: an answer follows from the one before.
func (Source) TaskConfigs(_ context.Context, config map[string]string, _ int) ([]map[string]string, error) {
	return []map[string]string{config}, nil
}

// Guarantees says that records are there once where an offset says what comes next.
func (Source) Guarantees(config map[string]string) plugin.Guarantees {
	return plugin.Guarantees{ExactlyOnce: config[offsetPointerKey] != "" || config[cursorPointerKey] != ""}
}

// AlterOffsets refuses what is no place of the source. There are no offsets besides Cauce's.
func (Source) AlterOffsets(_ context.Context, _ map[string]string, offsets []plugin.SourceOffset) (bool, error) {
	for _, o := range offsets {
		var p place
		if err := json.Unmarshal(o.Partition, &p); err != nil || p.URL == "" {
			return false, fmt.Errorf("partition %s: {\"url\": \"…\"} is wanted", o.Partition)
		}
		if o.Offset == nil {
			continue
		}
		d := json.NewDecoder(bytes.NewReader(o.Offset))
		d.DisallowUnknownFields()
		var at position
		if err := d.Decode(&at); err != nil || at.Done < 0 || !strings.Contains(string(o.Offset), `"offset"`) {
			return false, fmt.Errorf("offset %s: {\"offset\": \"…\"} with a text is wanted", o.Offset)
		}
	}
	return true, nil
}

// NewSourceTask returns a task.
func (Source) NewSourceTask() plugin.SourceTask { return &sourceTask{} }
