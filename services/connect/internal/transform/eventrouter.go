package transform

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/services/connect/internal/javaregex"
)

// Keys of EventRouter.
const (
	eventID             = "table.field.event.id"
	eventKey            = "table.field.event.key"
	eventPayload        = "table.field.event.payload"
	eventTimestamp      = "table.field.event.timestamp"
	eventSchemaVersion  = "table.field.event.schema.version"
	additionalPlacement = "table.fields.additional.placement"
	additionalMissing   = "table.fields.additional.error.on.missing"
	invalidOperation    = "table.op.invalid.behavior"
	expandJSON          = "table.expand.json.payload"
	jsonNulls           = "table.json.payload.null.behavior"
	routeBy             = "route.by.field"
	routeRegex          = "route.topic.regex"
	routeReplacement    = "route.topic.replacement"
	routeTombstone      = "route.tombstone.on.empty.payload"
)

var eventRouterDefinition = configdef.Definition{
	{Name: eventID, Type: configdef.String, Default: new("id"), Importance: configdef.Low, Doc: "The column of the event's id, which becomes the header id."},
	{Name: eventKey, Type: configdef.String, Default: new("aggregateid"), Importance: configdef.Low, Doc: "The column that becomes the key."},
	{Name: eventPayload, Type: configdef.String, Default: new("payload"), Importance: configdef.Low, Doc: "The column that becomes the value."},
	{Name: eventTimestamp, Type: configdef.String, Importance: configdef.Medium, Doc: "The column that becomes the timestamp; without one it is that of the change."},
	{Name: eventSchemaVersion, Type: configdef.String, Importance: configdef.Low, Doc: "The column of the version that the schema of an envelope gets."},
	{
		Name: additionalPlacement, Type: configdef.List, Importance: configdef.High,
		Doc: "Further columns and where they go, as column:header, column:envelope or column:partition, with another name behind a second colon.",
	},
	{Name: additionalMissing, Type: configdef.Boolean, Default: new("true"), Importance: configdef.Medium, Doc: "Whether a further column that is not there is an error."},
	{
		Name: invalidOperation, Type: configdef.String, Default: new("warn"), Importance: configdef.Medium, Valid: configdef.Rule{OneOf: []string{"warn", "error", "fatal"}, IgnoreCase: true},
		Doc: "What an updated row is, as events are only ever inserted and deleted: fatal is an error, with the others it is dropped.",
	},
	{Name: expandJSON, Type: configdef.Boolean, Default: new("false"), Importance: configdef.Medium, Doc: "Whether a payload that is JSON becomes a struct or an array, whose schema is found out."},
	{
		Name: jsonNulls, Type: configdef.String, Default: new("ignore"), Importance: configdef.Medium, Valid: configdef.Rule{OneOf: []string{"ignore", "optional_bytes"}, IgnoreCase: true},
		Doc: "What becomes of a null in JSON, of which no type can be found out: ignore leaves it out, optional_bytes takes it for bytes.",
	},
	{Name: routeBy, Type: configdef.String, Default: new("aggregatetype"), Importance: configdef.High, Doc: "The column that decides on the topic."},
	{Name: routeRegex, Type: configdef.String, Default: new("(?<routedByValue>.*)"), Importance: configdef.Low, Doc: "The regular expression, of Java's kind, that the whole of that column is to match."},
	{Name: routeReplacement, Type: configdef.String, Default: new("outbox.event.${routedByValue}"), Importance: configdef.High, Doc: "The topic. $1 or ${name} is a group of the expression."},
	{Name: routeTombstone, Type: configdef.Boolean, Default: new("false"), Importance: configdef.High, Doc: "Whether an event of an empty payload becomes a tombstone."},
}

// placement is a further column and where it goes.
type placement struct{ column, place, name string }

const (
	inHeader    = "header"
	inEnvelope  = "envelope"
	inPartition = "partition"
)

// eventRouter is Debezium's EventRouter: changes of an outbox table become events on topics of their own.
type eventRouter struct {
	id, key, payload, timestamp, version, routeBy string
	placements                                    []placement
	envelope                                      bool
	strict, fatal, expand, nullBytes, tombstone   bool
	route                                         regexRouter
	// envelopes are the schemas of envelopes by what they are made of: the row's, the route and the version, the payload's.
	envelopes map[envelopeOf]*data.Schema
}

type envelopeOf struct {
	row, payload *data.Schema
	route        string
	version      int32
}

func newEventRouter(v configdef.Values, of side) (Transform, error) {
	t := &eventRouter{
		id: v.String(eventID), key: v.String(eventKey), payload: v.String(eventPayload), timestamp: v.String(eventTimestamp), version: v.String(eventSchemaVersion),
		routeBy: v.String(routeBy), strict: v.Bool(additionalMissing), fatal: strings.EqualFold(v.String(invalidOperation), "fatal"), expand: v.Bool(expandJSON),
		nullBytes: strings.EqualFold(v.String(jsonNulls), "optional_bytes"), tombstone: v.Bool(routeTombstone),
	}
	if v.Has(additionalPlacement) && len(v.List(additionalPlacement)) == 0 {
		return nil, errors.New(additionalPlacement + " is empty")
	}
	for _, element := range v.List(additionalPlacement) {
		parts := strings.Split(element, ":")
		for i := range parts {
			parts[i] = strings.TrimSpace(parts[i])
		}
		if len(parts) < 2 || len(parts) > 3 {
			return nil, fmt.Errorf("%s: %q is not like column:header or column:header:name", additionalPlacement, element)
		}
		p := placement{parts[0], strings.ToLower(parts[1]), parts[len(parts)-1]}
		if len(parts) == 2 {
			p.name = p.column
		}
		if !slices.Contains([]string{inHeader, inEnvelope, inPartition}, p.place) {
			return nil, fmt.Errorf("%s: %q goes neither into a header nor the envelope nor the partition", additionalPlacement, element)
		}
		t.envelope = t.envelope || p.place == inEnvelope
		t.placements = append(t.placements, p)
	}
	var err error
	if t.route.pattern, err = javaregex.Compile(v.String(routeRegex)); err != nil {
		return nil, err
	}
	t.route.replacement, err = t.route.pattern.Replacement(v.String(routeReplacement))
	return t, err
}

func (t *eventRouter) Apply(r data.Record) (data.Record, bool, error) {
	if r.Value.V == nil {
		return r, true, nil
	}
	change, ok := r.Value.V.(*data.Struct)
	if !ok || !strings.HasSuffix(change.Schema.Name, ".Envelope") {
		return r, false, nil // a heartbeat, or a change of a table's definition
	}
	switch operation, _ := change.Get("op"); {
	case operation == "u" && t.fatal:
		return r, false, fmt.Errorf("EventRouter: a row of the outbox was updated: only inserted and deleted ones are expected")
	case operation == "u", operation == "d":
		return r, true, nil
	}
	after, _ := change.Get("after")
	row, ok := after.(*data.Struct)
	if !ok { // the table was emptied
		return r, true, nil
	}
	r.Headers = slices.Clip(r.Headers)
	if err := t.event(&r, change, row); err != nil {
		return r, false, fmt.Errorf("EventRouter: %w", err)
	}
	changed, _, err := t.route.Apply(r)
	return changed, false, err
}

// column returns the value of a column and its schema.
func column(row *data.Struct, name string) (data.Value, error) {
	i := row.Schema.FieldIndex(name)
	if i < 0 {
		return data.Value{}, fmt.Errorf("there is no column %q", name)
	}
	return data.Value{Schema: row.Schema.Fields[i].Schema, V: row.Defaulted(i)}, nil
}

// event makes a record an event, whose topic is not routed yet.
func (t *eventRouter) event(r *data.Record, change, row *data.Struct) error {
	id, err := column(row, t.id)
	if err != nil {
		return err
	}
	route, err := column(row, t.routeBy)
	if err != nil {
		return err
	}
	topic, ok := route.V.(string)
	if !ok {
		return fmt.Errorf("column %q, which decides on the topic, is %s", t.routeBy, kind(route))
	}
	if r.TimestampMs, err = t.timestampMs(change, row); err != nil {
		return err
	}
	if r.Key, err = column(row, t.key); err != nil {
		return err
	}
	payload, err := column(row, t.payload)
	if err != nil {
		return err
	}
	if t.expand {
		payload = expanded(payload, t.nullBytes)
	}
	r.Topic, r.Partition = topic, data.NoPartition
	r.Headers = append(r.Headers, data.Header{Name: "id", Value: id})
	extra, err := t.place(r, row)
	if err != nil {
		return err
	}
	text, isText := payload.V.(string)
	switch {
	case t.tombstone && (payload.V == nil || isText && strings.TrimSpace(text) == ""):
		r.Value = data.Value{}
	case t.envelope:
		r.Value, err = t.enveloped(row, topic, payload, extra)
	default:
		r.Value = payload
	}
	return err
}

// place puts the further columns where they go, and returns those of the envelope.
func (t *eventRouter) place(r *data.Record, row *data.Struct) ([]data.Header, error) {
	var extra []data.Header
	for _, p := range t.placements {
		v, err := column(row, p.column)
		if err != nil {
			if t.strict {
				return nil, err
			}
			continue
		}
		switch p.place {
		case inHeader:
			r.Headers = append(r.Headers, data.Header{Name: p.name, Value: v})
		case inEnvelope:
			extra = append(extra, data.Header{Name: p.name, Value: v})
		case inPartition:
			partition, ok := v.V.(int32)
			if v.V != nil && !ok {
				return nil, fmt.Errorf("column %q, which is the partition, is %s", p.column, kind(v))
			}
			if ok {
				r.Partition = partition
			}
		}
	}
	return extra, nil
}

func (t *eventRouter) timestampMs(change, row *data.Struct) (int64, error) {
	if t.timestamp != "" {
		v, err := column(row, t.timestamp)
		if err != nil {
			return 0, err
		}
		if v.V != nil {
			return eventMs(v)
		}
	}
	if ms, ok := change.Get("ts_ms"); ok {
		if ms, ok := ms.(int64); ok {
			return ms, nil
		}
	}
	return data.NoTimestamp, nil
}

func eventMs(v data.Value) (int64, error) {
	switch at := v.V.(type) {
	case time.Time:
		if v.Schema.Name == data.TimestampName {
			return at.UnixMilli(), nil
		}
	case int64:
		switch v.Schema.Name {
		case "io.debezium.time.Timestamp":
			return at, nil
		case "io.debezium.time.MicroTimestamp":
			return at / 1_000, nil
		case "io.debezium.time.NanoTimestamp":
			return at / 1_000_000, nil
		}
	}
	return 0, fmt.Errorf("the column of the timestamp, %s %q, is none", v.Schema.Type, v.Schema.Name)
}

// enveloped returns a struct of the payload and further columns.
func (t *eventRouter) enveloped(row *data.Struct, route string, payload data.Value, extra []data.Header) (data.Value, error) {
	of := envelopeOf{row: row.Schema, payload: payload.Schema, route: route, version: -1}
	if t.version != "" {
		v, err := column(row, t.version)
		if err != nil {
			return data.Value{}, err
		}
		version, ok := v.V.(int32)
		if !ok {
			return data.Value{}, fmt.Errorf("column %q, which is the version of the schema, is %s", t.version, kind(v))
		}
		of.version = version
	}
	schema, ok := t.envelopes[of]
	if !ok {
		schema = &data.Schema{Type: data.TypeStruct, Name: envelopeName(row.Schema.Name, route), Fields: []data.Field{{Name: "payload", Schema: payload.Schema}}}
		if of.version >= 0 {
			schema.Version = &of.version
		}
		for _, e := range extra {
			if err := addField(schema, e.Name, e.Value.Schema); err != nil {
				return data.Value{}, err
			}
		}
		if t.envelopes == nil || len(t.envelopes) >= maxDerived {
			t.envelopes = map[envelopeOf]*data.Schema{}
		}
		t.envelopes[of] = schema
	}
	s := &data.Struct{Schema: schema, Values: []any{payload.V}}
	for _, e := range extra {
		s.Values = append(s.Values, e.Value.V)
	}
	return data.Value{Schema: schema, V: s}, nil
}

// envelopeName returns the name of an envelope's schema, given that of the table's rows: the route stands before its last part.
func envelopeName(row, route string) string {
	i := strings.LastIndexByte(row, '.')
	if i < 0 {
		return route + "." + row
	}
	return row[:i] + "." + route + row[i:]
}
