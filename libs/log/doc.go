// Package log keeps one partition's records on disk exactly as Apache Kafka lays them out: segments with sparse
// offset and time indexes, the leader-epoch checkpoint, producer-state snapshots and the transaction index. A folder
// written by Kafka opens here, and Kafka's own tools read what is written here.
//
// A [Log] owns no goroutine, timer or map: time comes in as an argument and periodic work is a plain method that the
// owner (package logdir) calls. Methods are safe for concurrent use unless they say otherwise.
package log
