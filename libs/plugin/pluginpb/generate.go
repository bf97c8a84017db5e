// Package pluginpb holds the generated messages and services between Cauce and its plugins, version 1.
//
// Generated with protoc 3.21.12, protoc-gen-go v1.36.12 and protoc-gen-go-grpc v1.6.2.
package pluginpb

//go:generate protoc --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative catalog.proto assignor.proto partitioner.proto connector.proto data.proto
