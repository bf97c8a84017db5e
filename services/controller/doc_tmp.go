package tmp
import (
 _ "go.etcd.io/raft/v3"
 _ "go.etcd.io/etcd/server/v3/storage/wal"
 _ "go.etcd.io/etcd/server/v3/etcdserver/api/snap"
 _ "go.etcd.io/etcd/server/v3/etcdserver/api/rafthttp"
 _ "github.com/nats-io/nats-server/v2/server"
 _ "github.com/nats-io/nats.go"
 _ "github.com/prometheus/client_golang/prometheus/promhttp"
 _ "go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
 _ "github.com/twmb/franz-go/pkg/kgo"
 _ "github.com/tidwall/btree"
)
