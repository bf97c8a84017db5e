// Package connect holds Cauce's Connect worker against Apache Kafka's, and has each go on where the other has stopped.
package connect
