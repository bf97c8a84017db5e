// Package metadatapb holds the generated messages of the metadata log.
//
// Generated with protoc 3.21.12 and protoc-gen-go v1.36.12.
package metadatapb

//go:generate protoc --go_out=. --go_opt=paths=source_relative metadata.proto
