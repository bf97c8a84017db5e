package postgres

import (
	"cmp"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/plugins/connectors/postgres/internal/column"
	"github.com/cauce-stream/cauce/plugins/connectors/postgres/internal/database"
	"github.com/cauce-stream/cauce/plugins/connectors/postgres/internal/position"
)

// The keys of the source.
const (
	modeKey         = "mode"
	incrementingKey = "incrementing.column.name"
	firstNumberKey  = "incrementing.initial"
	timestampKey    = "timestamp.column.name"
	firstTimeKey    = "timestamp.initial"
	firstTimeMsKey  = "timestamp.initial.ms"
	delayKey        = "timestamp.delay.interval.ms"
	granularityKey  = "timestamp.granularity"
	nonNullKey      = "validate.non.null"
	queryKey        = "query"
	maskedQueryKey  = "query.masked"
	suffixKey       = "query.suffix"
	whitelistKey    = "table.whitelist"
	blacklistKey    = "table.blacklist"
	includeKey      = "table.include.list"
	excludeKey      = "table.exclude.list"
	schemaKey       = "schema.pattern"
	numericKey      = "numeric.mapping"
	precisionKey    = "numeric.precision.mapping"
	prefixKey       = "topic.prefix"
	pollKey         = "poll.interval.ms"
	tablePollKey    = "table.poll.interval.ms"
	batchKey        = "batch.max.rows"
	backoffKey      = "connection.backoff.ms"

	// tablesKey is what tasks get besides: schema and name of their tables, as JSON.
	tablesKey = "postgres.tables"
)

// The groups of keys in a form.
const (
	databaseGroup  = "Database"
	modeGroup      = "Mode"
	connectorGroup = "Connector"
)

var sourceDefinition = append(connectionKeys(databaseGroup, whitelistKey, blacklistKey), configdef.Definition{
	{Name: backoffKey, Type: configdef.Long, Default: new("10000"), Importance: configdef.Low, Group: databaseGroup, Order: 5, Width: configdef.ShortWidth,
		DisplayName: "Backoff (ms)", Doc: "How long to wait at most until the next try to connect. Tries begin 100 ms apart, and go on for ever.",
		Valid: configdef.Rule{Min: new(1.0), Max: new(3_600_000.0)}},
	{Name: whitelistKey, Type: configdef.List, Importance: configdef.Medium, Group: databaseGroup, Order: 6, Width: configdef.LongWidth, DisplayName: "Tables to read",
		Doc: "The tables to read, by name, or with their schema: `users,shop.orders`. All, when empty."},
	{Name: blacklistKey, Type: configdef.List, Importance: configdef.Medium, Group: databaseGroup, Order: 7, Width: configdef.LongWidth, DisplayName: "Tables to leave out",
		Doc: "The tables not to read."},
	{Name: includeKey, Type: configdef.List, Importance: configdef.Medium, Group: databaseGroup, Order: 11, Width: configdef.LongWidth, DisplayName: "Tables to read (patterns)",
		Doc: "Regular expressions (RE2) that the schema and name of a table to read must match one of, instead of the lists above: `shop[.]order.*`."},
	{Name: excludeKey, Type: configdef.List, Importance: configdef.Medium, Group: databaseGroup, Order: 12, Width: configdef.LongWidth, DisplayName: "Tables to leave out (patterns)",
		Doc: "Regular expressions of tables not to read, of those that the ones to read match."},
	{Name: schemaKey, Type: configdef.String, Importance: configdef.High, Group: databaseGroup, Order: 8, Width: configdef.ShortWidth, DisplayName: "Schemas",
		Doc: "The schemas whose tables are read, as a pattern of LIKE. All, when empty."},
	{Name: typesKey, Type: configdef.List, Default: new(database.KindTable), Importance: configdef.Low, Group: databaseGroup, Order: 9, Width: configdef.MediumWidth,
		DisplayName: "Kinds of tables", Doc: "What counts as a table. Partitions are tables of their own, unless partitioned tables are read.",
		Valid: configdef.Rule{NonEmpty: true, IgnoreCase: true, OneOf: []string{database.KindTable, database.KindPartitioned, database.KindView, database.KindMaterializedView, database.KindForeign}}},
	{Name: numericKey, Type: configdef.String, Default: new(column.NumericNone), Importance: configdef.Low, Group: databaseGroup, Order: 10, Width: configdef.ShortWidth,
		DisplayName: "Numeric columns",
		Doc: "What becomes of `numeric` columns: Decimals; integers where there are no digits behind the point (`precision_only`); integers, or FLOAT64 up to 18 digits (`best_fit`); or FLOAT64 " +
			"for all with digits behind the point (`best_fit_eager_double`). Those without a declared precision are Decimals of scale 127.",
		Valid: configdef.Rule{OneOf: []string{column.NumericNone, column.NumericPrecision, column.NumericBestFit, column.NumericEagerDouble}}},

	{Name: precisionKey, Type: configdef.Boolean, Default: new("false"), Importance: configdef.Low, Group: databaseGroup, Order: 13, Width: configdef.ShortWidth,
		DisplayName: "Numeric columns by precision", Doc: "An older word for `numeric.mapping` `precision_only`, which counts where that is not given."},

	{Name: modeKey, Type: configdef.String, Required: true, Importance: configdef.High, Group: modeGroup, Order: 1, Width: configdef.MediumWidth, DisplayName: "Mode",
		Dependents: []string{incrementingKey, firstNumberKey, timestampKey, delayKey, firstTimeKey, nonNullKey},
		Doc: "How to find what is new. `bulk` reads all rows each time. `incrementing` reads rows with a larger number than before: rows that are added. `timestamp` reads rows with a later time of change, " +
			"`timestamp+incrementing` too, and tells rows of one time apart by their number. What commits later than rows with a larger number or a later time that have been read already is missed: see the delay.",
		Valid: configdef.Rule{OneOf: []string{string(position.Bulk), string(position.Incrementing), string(position.Timestamp), string(position.TimestampIncrementing)}}},
	{Name: incrementingKey, Type: configdef.String, Default: new(""), Importance: configdef.Medium, Group: modeGroup, Order: 2, Width: configdef.MediumWidth, DisplayName: "Incrementing column",
		Doc: "The column whose number grows, an integer. When empty, the table's first serial or identity column."},
	{Name: firstNumberKey, Type: configdef.Long, Importance: configdef.Low, Group: modeGroup, Order: 3, Width: configdef.ShortWidth, DisplayName: "First number",
		Doc: "The number after which to begin."},
	{Name: timestampKey, Type: configdef.List, Importance: configdef.Medium, Group: modeGroup, Order: 4, Width: configdef.MediumWidth, DisplayName: "Timestamp columns",
		Doc: "The columns with the time of change, `timestamp` or `timestamptz`: the first that is not null counts."},
	{Name: firstTimeKey, Type: configdef.Long, Importance: configdef.Low, Group: modeGroup, Order: 5, Width: configdef.ShortWidth, DisplayName: "First time (ms)",
		Doc: "The time, in milliseconds since 1970, after which to begin; -1 for now. Everything, when it is not given.", Valid: configdef.Rule{Min: new(-1.0), Max: new(maxTimeMs)}},
	{Name: firstTimeMsKey, Type: configdef.Long, Importance: configdef.Low, Group: modeGroup, Order: 6, Width: configdef.ShortWidth, DisplayName: "First time (ms)",
		Doc: "The same in the words of Aiven's connector.", Valid: configdef.Rule{Min: new(-1.0), Max: new(maxTimeMs)}},
	{Name: delayKey, Type: configdef.Long, Default: new("0"), Importance: configdef.High, Group: modeGroup, Order: 7, Width: configdef.MediumWidth, DisplayName: "Delay (ms)",
		Doc:   "How old the time of change must be for a row to be read. It should be longer than the transactions that write rows, as these have the time at which they began.",
		Valid: configdef.Rule{Min: new(0.0), Max: new(maxTimeMs)}},
	{Name: nonNullKey, Type: configdef.Boolean, Default: new("true"), Importance: configdef.Low, Group: modeGroup, Order: 8, Width: configdef.ShortWidth, DisplayName: "Refuse nulls",
		Doc: "Refuse tables whose incrementing column, or all of whose timestamp columns, may be null. Rows where they are null are not read."},
	{Name: queryKey, Type: configdef.String, Default: new(""), Importance: configdef.Medium, Group: modeGroup, Order: 9, Width: configdef.LongWidth, DisplayName: "Query",
		Doc: "What to read instead of tables: a SELECT, which may have a WHERE and must return the columns of the mode."},
	{Name: maskedQueryKey, Type: configdef.Password, Importance: configdef.Medium, Group: modeGroup, Order: 11, Width: configdef.LongWidth, DisplayName: "Query (hidden)",
		Doc: "The same, and it is never shown."},
	{Name: suffixKey, Type: configdef.String, Default: new(""), Importance: configdef.Low, Group: modeGroup, Order: 10, Width: configdef.MediumWidth, DisplayName: "Behind statements",
		Doc: "What to put behind each statement, such as `LIMIT 10000`."},

	{Name: prefixKey, Type: configdef.String, Required: true, Importance: configdef.High, Group: connectorGroup, Order: 1, Width: configdef.MediumWidth, DisplayName: "Topic prefix",
		Doc: "What the topics of tables begin with; the name of the table follows. The topic itself for a query.", Valid: configdef.Rule{NonEmpty: true}},
	{Name: pollKey, Type: configdef.Int, Default: new("5000"), Importance: configdef.High, Group: connectorGroup, Order: 2, Width: configdef.ShortWidth, DisplayName: "Interval (ms)",
		Doc: "How long to wait until a table is asked again.", Valid: configdef.Rule{Min: new(1.0)}},
	{Name: tablePollKey, Type: configdef.Long, Default: new("60000"), Importance: configdef.Low, Group: connectorGroup, Order: 3, Width: configdef.ShortWidth,
		DisplayName: "Interval of tables (ms)", Doc: "How often to look for tables that came or went.", Valid: configdef.Rule{Min: new(1.0), Max: new(maxTimeMs)}},
	{Name: batchKey, Type: configdef.Int, Default: new("1000"), Importance: configdef.Low, Group: connectorGroup, Order: 4, Width: configdef.ShortWidth, DisplayName: "Rows at once",
		Doc: "At most so many rows come at once.", Valid: configdef.Rule{Min: new(1.0), Max: new(100_000.0)}},
	{Name: granularityKey, Type: configdef.String, Default: new(column.ConnectLogical), Importance: configdef.Low, Group: connectorGroup, Order: 5, Width: configdef.MediumWidth,
		DisplayName: "Timestamps", Doc: "How values of `timestamp` and `timestamptz` columns are given: as Connect's Timestamp, which has milliseconds, or with all their digits.",
		Valid: configdef.Rule{OneOf: []string{column.ConnectLogical, column.MicrosLong, column.MicrosString, column.MicrosISO, column.NanosLong, column.NanosString, column.NanosISO}}},
}...)

// maxTimeMs bounds times and intervals: it is in the year 10889.
const maxTimeMs = float64(1 << 48)

// unsupported are keys of the JDBC source that change what is read, and that this one does not have: better no connector than
// another one than was meant.
var unsupported = []string{"timestamp.columns.mapping", "incrementing.column.mapping", "jdbc.credentials.provider.class"}

func queryOf(v configdef.Values) string { return cmp.Or(v.String(queryKey), v.String(maskedQueryKey)) }

// numericOf is what becomes of numeric columns.
func numericOf(v configdef.Values, config map[string]string) string {
	if _, given := config[numericKey]; !given && v.Bool(precisionKey) {
		return column.NumericPrecision
	}
	return v.String(numericKey)
}
