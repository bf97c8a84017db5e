package definition

import (
	"slices"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/services/connect/internal/herder"
	"github.com/cauce-stream/cauce/services/connect/internal/topiccreation"
)

// The keys that something is checked of beyond the definition.
const (
	nameKey         = "name"
	versionKey      = "connector.plugin.version"
	transformsKey   = "transforms"
	predicatesKey   = "predicates"
	topicsKey       = "topics"
	topicsRegexKey  = "topics.regex"
	deadLetterKey   = "errors.deadletterqueue.topic.name"
	exactlyOnceKey  = "exactly.once.support"
	boundaryKey     = "transaction.boundary"
	offsetsTopicKey = "offsets.storage.topic"
	versionSuffix   = ".plugin.version"
)

// The headings of forms.
const (
	commonGroup      = "Common"
	transformsGroup  = "Transforms"
	predicatesGroup  = "Predicates"
	errorsGroup      = "Error Handling"
	exactlyOnceGroup = "Exactly Once Support"
	offsetsGroup     = "offsets.topic"
)

// commonKeys are those of all sources or of all sinks. The definition is the caller's.
func commonKeys(c Connector) configdef.Definition {
	d := slices.Concat(everyKeys, sinkKeys)
	if c.Type == herder.Source {
		d = slices.Concat(everyKeys, topiccreation.Definition(nil), sourceKeys)
	}
	if k := d.Find(versionKey); c.Version != "" {
		k.Default, k.Recommended = &c.Version, []string{c.Version}
	}
	return d
}

var everyKeys = configdef.Definition{
	{
		Name: nameKey, Type: configdef.String, Required: true, Importance: configdef.High, Group: commonGroup, Order: 1, Width: configdef.MediumWidth, DisplayName: "Connector name",
		Doc: "What the connector is called: no other of the cluster has the same name.", Valid: configdef.Rule{NonEmpty: true},
	},
	{
		Name: "connector.class", Type: configdef.String, Required: true, Importance: configdef.High, Group: commonGroup, Order: 2, Width: configdef.LongWidth, DisplayName: "Connector class",
		Doc: "The plugin that the connector runs, by its name, the full name of the Java class that it stands for, or the last part of that, with or without Connector at its end.",
	},
	{
		Name: versionKey, Type: configdef.String, Importance: configdef.Medium, Group: commonGroup, Order: 3, Width: configdef.MediumWidth, DisplayName: "Connector version",
		Doc: "The version of the plugin that is wanted: one, a range like [1.0,2.0), or latest.",
	},
	{
		Name: "tasks.max", Type: configdef.Int, Default: new("1"), Importance: configdef.High, Group: commonGroup, Order: 4, Width: configdef.ShortWidth, DisplayName: "Tasks max",
		Doc: "The most tasks that the connector's work is divided into.", Valid: configdef.Rule{Min: new(1.0)},
	},
	{
		Name: "tasks.max.enforce", Type: configdef.Boolean, Default: new("true"), Importance: configdef.Low, Group: commonGroup, Order: 5, Width: configdef.ShortWidth, DisplayName: "Enforce tasks max",
		Doc: "Whether a connector fails that makes more tasks than tasks.max. Otherwise they run.",
	},
	{
		Name: "key.converter", Type: configdef.Class, Importance: configdef.Low, Group: commonGroup, Order: 6, Width: configdef.ShortWidth, DisplayName: "Key converter class",
		Doc: "The converter between the keys of records and what topics hold; the worker's when unset. Named here, it takes its configuration from key.converter. of the connector alone.",
	},
	{
		Name: "key.converter.plugin.version", Type: configdef.String, Importance: configdef.Low, Group: commonGroup, Order: 7, Width: configdef.ShortWidth, DisplayName: "Key converter version",
		Doc: "The version of the key converter that is wanted.",
	},
	{
		Name: "value.converter", Type: configdef.Class, Importance: configdef.Low, Group: commonGroup, Order: 8, Width: configdef.ShortWidth, DisplayName: "Value converter class",
		Doc: "The converter between the values of records and what topics hold; the worker's when unset. Named here, it takes its configuration from value.converter. of the connector alone.",
	},
	{
		Name: "value.converter.plugin.version", Type: configdef.String, Importance: configdef.Low, Group: commonGroup, Order: 9, Width: configdef.ShortWidth, DisplayName: "Value converter version",
		Doc: "The version of the value converter that is wanted.",
	},
	{
		Name: "header.converter", Type: configdef.Class, Importance: configdef.Low, Group: commonGroup, Order: 10, Width: configdef.ShortWidth, DisplayName: "Header converter class",
		Doc: "The converter between the headers of records and what topics hold; the worker's when unset.",
	},
	{
		Name: "header.converter.plugin.version", Type: configdef.String, Importance: configdef.Low, Group: commonGroup, Order: 11, Width: configdef.ShortWidth, DisplayName: "Header converter version",
		Doc: "The version of the header converter that is wanted.",
	},
	{
		Name: transformsKey, Type: configdef.List, Default: new(""), Importance: configdef.Low, Group: transformsGroup, Order: 12, Width: configdef.LongWidth, DisplayName: "Transforms",
		Doc: "Names for the transforms that records pass, in this order. transforms.NAME.type is the class of each.",
	},
	{
		Name: predicatesKey, Type: configdef.List, Default: new(""), Importance: configdef.Low, Group: predicatesGroup, Order: 13, Width: configdef.LongWidth, DisplayName: "Predicates",
		Doc: "Names for the predicates that transforms may refer to. predicates.NAME.type is the class of each.",
	},
	{
		Name: "config.action.reload", Type: configdef.String, Default: new("restart"), Importance: configdef.Low, Group: commonGroup, Order: 14, Width: configdef.MediumWidth, DisplayName: "Reload Action",
		Doc: "What happens when a value that a configuration provider gave runs out. Those that ship give values without end.", Valid: configdef.Rule{OneOf: []string{"none", "restart"}},
	},
	{
		Name: "errors.retry.timeout", Type: configdef.Long, Default: new("0"), Importance: configdef.Medium, Group: errorsGroup, Order: 1, Width: configdef.MediumWidth, DisplayName: "Retry Timeout for Errors",
		Doc: "For how many milliseconds what failed is tried again, if that can help; 0 for not at all, -1 for as long as it takes.", Valid: configdef.Rule{Min: new(-1.0)},
	},
	{
		Name: "errors.retry.delay.max.ms", Type: configdef.Long, Default: new("60000"), Importance: configdef.Medium, Group: errorsGroup, Order: 2, Width: configdef.MediumWidth, DisplayName: "Maximum Delay Between Retries for Errors",
		Doc: "The most milliseconds between two attempts. The first come after less.", Valid: configdef.Rule{Min: new(0.0)},
	},
	{
		Name: "errors.tolerance", Type: configdef.String, Default: new("none"), Importance: configdef.Medium, Group: errorsGroup, Order: 3, Width: configdef.ShortWidth, DisplayName: "Error Tolerance",
		Doc: "What a record costs that cannot be converted, transformed or written: none fails the task, all leaves the record out.", Valid: configdef.Rule{OneOf: []string{"none", "all"}},
	},
	{
		Name: "errors.log.enable", Type: configdef.Boolean, Default: new("false"), Importance: configdef.Medium, Group: errorsGroup, Order: 4, Width: configdef.ShortWidth, DisplayName: "Log Errors",
		Doc: "Whether each such error is logged, those that fail the task and those that do not.",
	},
	{
		Name: "errors.log.include.messages", Type: configdef.Boolean, Default: new("false"), Importance: configdef.Medium, Group: errorsGroup, Order: 5, Width: configdef.ShortWidth, DisplayName: "Log Error Details",
		Doc: "Whether the log says which record it was: topic, partition, offset and timestamp of a sink's, all of a source's.",
	},
}

var sinkKeys = configdef.Definition{
	{
		Name: topicsKey, Type: configdef.List, Default: new(""), Importance: configdef.High, Group: commonGroup, Order: 4, Width: configdef.LongWidth, DisplayName: "Topics",
		Doc: "The topics that the connector reads. Either these or topics.regex.",
	},
	{
		Name: topicsRegexKey, Type: configdef.String, Default: new(""), Importance: configdef.High, Group: commonGroup, Order: 4, Width: configdef.LongWidth, DisplayName: "Topics regex",
		Doc: "A regular expression, of Java's kind, of the topics that the connector reads: their whole names match it.",
	},
	{
		Name: deadLetterKey, Type: configdef.String, Default: new(""), Importance: configdef.Medium, Group: errorsGroup, Order: 6, Width: configdef.MediumWidth, DisplayName: "Dead Letter Queue Topic Name",
		Doc: "The topic that records go to which cannot be converted, transformed or written; none when empty.",
	},
	{
		Name: "errors.deadletterqueue.topic.replication.factor", Type: configdef.Short, Default: new("3"), Importance: configdef.Medium, Group: errorsGroup, Order: 7, Width: configdef.MediumWidth,
		DisplayName: "Dead Letter Queue Topic Replication Factor", Doc: "How many replicas that topic gets when it is created; -1 for the brokers' default.", Valid: configdef.Rule{Min: new(-1.0)},
	},
	{
		Name: "errors.deadletterqueue.context.headers.enable", Type: configdef.Boolean, Default: new("false"), Importance: configdef.Medium, Group: errorsGroup, Order: 8, Width: configdef.MediumWidth,
		DisplayName: "Enable Error Context Headers", Doc: "Whether records there get headers, __connect.errors. and more, that say what was wrong and where.",
	},
}

var sourceKeys = configdef.Definition{
	{
		Name: exactlyOnceKey, Type: configdef.String, Default: new("requested"), Importance: configdef.Medium, Group: exactlyOnceGroup, Order: 2, Width: configdef.ShortWidth, DisplayName: "Exactly once support",
		Doc: "With required the configuration is refused unless the worker and the connector can deliver each record exactly once.", Valid: configdef.Rule{OneOf: []string{"requested", "required"}, IgnoreCase: true},
	},
	{
		Name: boundaryKey, Type: configdef.String, Default: new("poll"), Importance: configdef.Medium, Group: exactlyOnceGroup, Order: 3, Width: configdef.ShortWidth, DisplayName: "Transaction Boundary",
		Doc: "Where transactions end: after each batch, after an interval, or where the connector says.", Valid: configdef.Rule{OneOf: []string{"poll", "interval", "connector"}, IgnoreCase: true},
	},
	{
		Name: "transaction.boundary.interval.ms", Type: configdef.Long, Importance: configdef.Low, Group: exactlyOnceGroup, Order: 4, Width: configdef.ShortWidth, DisplayName: "Transaction boundary interval",
		Doc: "How many milliseconds a transaction lasts whose end is the interval's; offset.flush.interval.ms of the worker when unset.", Valid: configdef.Rule{Min: new(0.0)},
	},
	{
		Name: offsetsTopicKey, Type: configdef.String, Importance: configdef.Low, Group: offsetsGroup, Order: 1, Width: configdef.LongWidth, DisplayName: "Offsets topic",
		Doc: "A topic of its own for the connector's offsets, which is created if it is not there; the worker's when unset.", Valid: configdef.Rule{NonEmpty: true},
	},
}
