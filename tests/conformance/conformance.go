// Package conformance runs unmodified Kafka clients and Apache Kafka's own tools against a server and compares what
// they do with what they do on Apache Kafka. All of it stands behind the build tag "conformance"; README.md says how
// to run it and what it fetches.
package conformance
