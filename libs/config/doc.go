// Package config resolves the configuration of a process from typed keys.
//
// A Schema is the set of keys a process knows. Load resolves every key of a
// schema from five layers, the later one winning:
//
//	defaults < .properties file < environment (KAFKA_*) < environment (CAUCE_*) < --set flags
//
// The file is a Java .properties file, so that a Kafka server.properties works
// unchanged. A key that the schema does not know, or a value its key does not
// accept, is refused by name with the place it was read from; all faults of one
// start are reported at once. Only a variable KAFKA_* that names no key is passed
// over: images and compose files made for Kafka set many.
package config
