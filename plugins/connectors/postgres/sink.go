package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/plugins/connectors/postgres/internal/database"
	"github.com/cauce-stream/cauce/plugins/connectors/postgres/internal/ident"
	"github.com/cauce-stream/cauce/plugins/connectors/postgres/internal/plan"
)

// The keys of the sink.
const (
	insertModeKey = "insert.mode"
	batchSizeKey  = "batch.size"
	deleteKey     = "delete.enabled"
	formatKey     = "table.name.format"
	keyModeKey    = "pk.mode"
	keyFieldsKey  = "pk.fields"
	fieldsKey     = "fields.whitelist"
	nullsKey      = "replace.null.with.default"
	createKey     = "auto.create"
	evolveKey     = "auto.evolve"
	quoteKey      = "quote.sql.identifiers"
	retriesKey    = "max.retries"
	retryKey      = "retry.backoff.ms"
)

// topicPlaceholder is what table.name.format has in the place of the topic.
const topicPlaceholder = "${topic}"

// The groups of keys in a form.
const (
	connectionGroup = "Connection"
	writesGroup     = "Writes"
	mappingGroup    = "Data Mapping"
	ddlGroup        = "DDL Support"
	retriesGroup    = "Retries"
)

var sinkDefinition = append(connectionKeys(connectionGroup), configdef.Definition{
	{Name: insertModeKey, Type: configdef.String, Default: new(plan.Insert), Importance: configdef.High, Group: writesGroup, Order: 1, Width: configdef.MediumWidth,
		DisplayName: "Mode", Doc: "How to write records: `insert` adds rows, `upsert` replaces the row of the same primary key or adds one, `update` changes the row that is there.",
		Valid: configdef.Rule{OneOf: []string{plan.Insert, plan.Upsert, plan.Update}, IgnoreCase: true}},
	{Name: batchSizeKey, Type: configdef.Int, Default: new("3000"), Importance: configdef.Medium, Group: writesGroup, Order: 2, Width: configdef.ShortWidth,
		DisplayName: "Records at once", Doc: "How many records are sent to the database before its answers are read.", Valid: configdef.Rule{Min: new(1.0), Max: new(100_000.0)}},
	{Name: deleteKey, Type: configdef.Boolean, Default: new("false"), Importance: configdef.Medium, Group: writesGroup, Order: 3, Width: configdef.ShortWidth,
		DisplayName: "Delete", Doc: "Whether a record whose value is null deletes the row of its key. Needs `pk.mode` `record_key`."},
	{Name: typesKey, Type: configdef.List, Default: new(database.KindTable + "," + database.KindPartitioned), Importance: configdef.Low, Group: writesGroup, Order: 4, Width: configdef.MediumWidth,
		DisplayName: "Kinds of tables", Doc: "What may be written to.",
		Valid: configdef.Rule{NonEmpty: true, IgnoreCase: true, OneOf: []string{database.KindTable, database.KindPartitioned, database.KindView, database.KindForeign}}},
	{Name: nullsKey, Type: configdef.Boolean, Default: new("true"), Importance: configdef.Low, Group: writesGroup, Order: 5, Width: configdef.ShortWidth,
		DisplayName: "Defaults for nulls", Doc: "Whether a null of a field that has a default is written as that."},

	{Name: formatKey, Type: configdef.String, Default: new(topicPlaceholder), Importance: configdef.Medium, Group: mappingGroup, Order: 1, Width: configdef.LongWidth,
		DisplayName: "Table", Doc: "The table to write to; `${topic}` is the topic. What is before a dot is the schema: of the topic `shop.orders` the table is `orders` in the schema `shop`.",
		Valid: configdef.Rule{NonEmpty: true}},
	{Name: keyModeKey, Type: configdef.String, Default: new(plan.KeyNone), Importance: configdef.High, Group: mappingGroup, Order: 2, Width: configdef.MediumWidth,
		DisplayName: "Primary key", Dependents: []string{keyFieldsKey, deleteKey},
		Doc:   "What the primary key is: nothing; topic, partition and offset of the record (`kafka`); or fields of its key or of its value.",
		Valid: configdef.Rule{OneOf: []string{plan.KeyNone, plan.KeyKafka, plan.KeyRecord, plan.KeyValue}, IgnoreCase: true}},
	{Name: keyFieldsKey, Type: configdef.List, Importance: configdef.Medium, Group: mappingGroup, Order: 3, Width: configdef.LongWidth, DisplayName: "Fields of the primary key",
		Doc: "The fields of the primary key; all of the key or of the value, when empty. With `kafka` the names of the three columns. The name of the column, where keys are no structs."},
	{Name: fieldsKey, Type: configdef.List, Importance: configdef.Medium, Group: mappingGroup, Order: 4, Width: configdef.LongWidth, DisplayName: "Fields to write",
		Doc: "The fields of the value to write besides the primary key; all, when empty."},

	{Name: createKey, Type: configdef.Boolean, Default: new("false"), Importance: configdef.Medium, Group: ddlGroup, Order: 1, Width: configdef.ShortWidth,
		DisplayName: "Make tables", Doc: "Whether to make a table that is missing."},
	{Name: evolveKey, Type: configdef.Boolean, Default: new("false"), Importance: configdef.Medium, Group: ddlGroup, Order: 2, Width: configdef.ShortWidth,
		DisplayName: "Add columns", Doc: "Whether to add columns that a table lacks, for fields that are optional or have a default."},
	{Name: quoteKey, Type: configdef.String, Default: new("always"), Importance: configdef.Medium, Group: ddlGroup, Order: 3, Width: configdef.MediumWidth,
		DisplayName: "Quote names", Doc: "Whether names are taken as they are, or in lower case as SQL takes them without quotes.",
		Valid: configdef.Rule{OneOf: []string{"always", "never"}, IgnoreCase: true}},

	{Name: retriesKey, Type: configdef.Int, Default: new("10"), Importance: configdef.Medium, Group: retriesGroup, Order: 1, Width: configdef.ShortWidth,
		DisplayName: "Tries", Doc: "How often to try again, where the database cannot be reached or has undone a transaction, before the task fails.",
		Valid: configdef.Rule{Min: new(0.0)}},
	{Name: retryKey, Type: configdef.Int, Default: new("3000"), Importance: configdef.Medium, Group: retriesGroup, Order: 2, Width: configdef.ShortWidth,
		DisplayName: "Wait (ms)", Doc: "How long to wait until the next try.", Valid: configdef.Rule{Min: new(0.0)}},
}...)

// unsupportedBySink are keys of the JDBC sinks that change what is written, and that this one does not have.
var unsupportedBySink = []string{"timestamp.fields.list", "topics.to.tables.mapping", "jdbc.credentials.provider.class"}

// Sink writes records into tables.
type Sink struct{}

// Info names it "postgres-sink".
func (Sink) Info() plugin.Info {
	return plugin.Info{Name: "postgres-sink", Version: "1.0.0", Doc: "Writes records into tables of PostgreSQL: adds, replaces, changes and deletes rows.",
		Aliases: []string{"io.confluent.connect.jdbc.JdbcSinkConnector", "io.aiven.connect.jdbc.JdbcSinkConnector"}}
}

// Definition is the keys of its configuration.
func (Sink) Definition() configdef.Definition { return sinkDefinition }

// Validate finds keys that do not go together, and whether the database refuses the user.
func (Sink) Validate(ctx context.Context, config map[string]string) ([]configdef.Finding, error) {
	v, err := sinkDefinition.Parse(config)
	if err != nil {
		return nil, err
	}
	var findings []configdef.Finding
	options := optionsOf(v)
	if what, err := options.Check(); err != nil {
		findings = append(findings, configdef.Finding{Name: what, Errors: []string{what + ": " + err.Error()}})
	}
	if _, err := tableOf(v.String(formatKey), "topic", options.Lower); err != nil {
		findings = append(findings, configdef.Finding{Name: formatKey, Errors: []string{formatKey + ": " + err.Error()}})
	}
	for _, name := range []string{keyFieldsKey, fieldsKey} {
		if slices.Contains(v.List(name), "") {
			findings = append(findings, configdef.Finding{Name: name, Errors: []string{name + " has an empty element"}})
		}
	}
	for _, name := range unsupportedBySink {
		if config[name] != "" {
			findings = append(findings, configdef.Finding{Name: name, Errors: []string{name + " is not supported"}})
		}
	}
	if options.KeyMode == plan.KeyNone {
		findings = append(findings, configdef.Finding{Name: keyFieldsKey, Hidden: true})
	}
	if options.KeyMode != plan.KeyRecord {
		findings = append(findings, configdef.Finding{Name: deleteKey, Hidden: true})
	}
	return append(findings, checkConnection(ctx, databaseOf(v), func(context.Context, *pgconn.PgConn) []configdef.Finding { return nil })...), nil
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

func optionsOf(v configdef.Values) plan.Options {
	return plan.Options{Mode: strings.ToLower(v.String(insertModeKey)), KeyMode: strings.ToLower(v.String(keyModeKey)), KeyFields: v.List(keyFieldsKey),
		Whitelist: v.List(fieldsKey), Delete: v.Bool(deleteKey), KeepNulls: !v.Bool(nullsKey), Lower: strings.EqualFold(v.String(quoteKey), "never")}
}

// tableOf returns the table of a topic.
func tableOf(format, topic string, lower bool) (ident.Name, error) {
	name, err := ident.ParseName(strings.ReplaceAll(format, topicPlaceholder, topic))
	if err != nil {
		return nil, fmt.Errorf("topic %s: %w", topic, err)
	}
	if lower {
		name = name.ToLower()
	}
	return name, nil
}
