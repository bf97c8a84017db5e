// Package protocol sends requests frame by frame and compares what comes back with what Apache Kafka answers. It stands
// behind the build tag "conformance"; the README of the folder above says how to run it.
package protocol
