// Package controlpb holds the messages that nodes and controllers exchange over the bus, and the endpoints they are sent to.
package controlpb

//go:generate protoc --go_out=. --go_opt=paths=source_relative control.proto
