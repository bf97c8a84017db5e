// Package configkeys is the table of the configuration keys of a Cauce cluster:
// Kafka's own broker, topic, group and client-metrics keys under Kafka's names,
// with Kafka's types, defaults and limits, and the keys that only Cauce has.
//
// It also knows how they combine: which broker keys stand in for a topic or
// group key, in what order the layers override each other, and what
// DescribeConfigs and AlterConfigs say about each.
//
// docs/configuration.md is generated from this package.
package configkeys

//go:generate go run ./gendocs ../../../docs/configuration.md
