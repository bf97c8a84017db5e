package clientconfig

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// producer are the properties of producers alone. batch.size has no use: batches are as large as what waits, within max.request.size. Nor has max.block.ms:
// tasks wait for as long as they have to.
var producer = map[string]reader{
	"acks": choice(map[string]kgo.Opt{
		"all": kgo.RequiredAcks(kgo.AllISRAcks()), "-1": kgo.RequiredAcks(kgo.AllISRAcks()), "1": kgo.RequiredAcks(kgo.LeaderAck()), "0": kgo.RequiredAcks(kgo.NoAck()),
	}),
	"linger.ms": millis(func(d time.Duration) kgo.Opt { return kgo.ProducerLinger(min(d, maxLinger)) }),
	"compression.type": choice(map[string]kgo.Opt{
		"none": kgo.ProducerBatchCompression(kgo.NoCompression()), "gzip": kgo.ProducerBatchCompression(kgo.GzipCompression()),
		"snappy": kgo.ProducerBatchCompression(kgo.SnappyCompression()), "lz4": kgo.ProducerBatchCompression(kgo.Lz4Compression()),
		"zstd": kgo.ProducerBatchCompression(kgo.ZstdCompression()),
	}),
	"max.request.size": numbers(1, math.MaxInt32, func(n int64) []kgo.Opt {
		n = min(n, maxBatchBytes)
		return []kgo.Opt{kgo.ProducerBatchMaxBytes(int32(n)), kgo.BrokerMaxWriteBytes(int32(max(n, maxRequestBytes)))}
	}),
	"buffer.memory":                         number(1, math.MaxInt64, func(n int64) kgo.Opt { return kgo.MaxBufferedBytes(int(n)) }),
	"max.in.flight.requests.per.connection": inFlight,
	Idempotence:                             choice(map[string]kgo.Opt{"true": nil, "false": kgo.DisableIdempotentWrite()}),
	"delivery.timeout.ms":                   millis(func(d time.Duration) kgo.Opt { return kgo.RecordDeliveryTimeout(d) }),
	"request.timeout.ms":                    millis(func(d time.Duration) kgo.Opt { return kgo.ProduceRequestTimeout(max(d, minRequestTimeout)) }),
	"retries":                               number(0, math.MaxInt32, func(n int64) kgo.Opt { return kgo.RecordRetries(int(n)) }),
	"transaction.timeout.ms":                millis(func(d time.Duration) kgo.Opt { return kgo.TransactionTimeout(d) }),
	"batch.size":                            numbers(0, math.MaxInt32, nothing),
	"max.block.ms":                          durations(nothing),
}

// Idempotence is whether a producer's records are stored once though they are sent again.
const Idempotence = "enable.idempotence"

const (
	// maxInFlight is the most requests to a broker that Kafka's idempotent producer takes.
	maxInFlight = 5
	// maxLinger is the most that the client takes.
	maxLinger = time.Minute
	// minRequestTimeout is the least that it takes.
	minRequestTimeout = 100 * time.Millisecond
	// minFetchWait is the least that it takes.
	minFetchWait = 10 * time.Millisecond
	// maxRequestBytes is how large requests and answers may be if nothing says otherwise, maxBatchBytes the most that the client takes for a batch or an
	// answer.
	maxRequestBytes, maxBatchBytes = 100 << 20, 1 << 30
)

// inFlight is how many requests to a broker may be on their way. The client itself says how many when it is idempotent: as many as keep their order.
func inFlight(p Properties, value string) ([]kgo.Opt, error) {
	most := int64(math.MaxInt32)
	idempotent := strings.EqualFold(strings.TrimSpace(p[Idempotence]), "true")
	if idempotent {
		most = maxInFlight
	}
	return numbers(1, most, func(n int64) []kgo.Opt {
		if idempotent {
			return nil
		}
		return []kgo.Opt{kgo.MaxProduceRequestsInflightPerBroker(int(n))}
	})(p, value)
}

// consumer are the properties of consumers alone.
var consumer = map[string]reader{
	"max.poll.records":      numbers(1, math.MaxInt32, nothing),
	"group.protocol":        choice(map[string]kgo.Opt{"classic": nil, "consumer": nil}),
	"group.remote.assignor": choice(map[string]kgo.Opt{"uniform": nil, "range": nil}),
	"enable.auto.commit":    choice(map[string]kgo.Opt{"true": nil, "false": nil}),
	"group.instance.id":     text(kgo.InstanceID),
	"auto.offset.reset": choice(map[string]kgo.Opt{
		"earliest": kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), "latest": kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()),
		"none": kgo.ConsumeResetOffset(kgo.NoResetOffset()),
	}),
	"isolation.level": choice(map[string]kgo.Opt{
		"read_committed": kgo.FetchIsolationLevel(kgo.ReadCommitted()), "read_uncommitted": kgo.FetchIsolationLevel(kgo.ReadUncommitted()),
	}),
	"fetch.min.bytes": number(1, math.MaxInt32, func(n int64) kgo.Opt { return kgo.FetchMinBytes(int32(n)) }),
	"fetch.max.bytes": numbers(1, math.MaxInt32, func(n int64) []kgo.Opt {
		n = min(n, maxBatchBytes)
		return []kgo.Opt{kgo.FetchMaxBytes(int32(n)), kgo.BrokerMaxReadBytes(int32(max(n, maxRequestBytes)))}
	}),
	"max.partition.fetch.bytes": number(1, math.MaxInt32, func(n int64) kgo.Opt { return kgo.FetchMaxPartitionBytes(int32(n)) }),
	"fetch.max.wait.ms":         millis(func(d time.Duration) kgo.Opt { return kgo.FetchMaxWait(max(d, minFetchWait)) }),
	"session.timeout.ms":        millis(func(d time.Duration) kgo.Opt { return kgo.SessionTimeout(d) }),
	"heartbeat.interval.ms":     millis(func(d time.Duration) kgo.Opt { return kgo.HeartbeatInterval(d) }),
	"max.poll.interval.ms":      millis(func(d time.Duration) kgo.Opt { return kgo.RebalanceTimeout(d) }),
	"partition.assignment.strategy": func(_ Properties, value string) ([]kgo.Opt, error) {
		var balancers []kgo.GroupBalancer
		for _, name := range elements(value) {
			b, ok := strategies[name[strings.LastIndexByte(name, '.')+1:]]
			if !ok {
				return nil, fmt.Errorf("unknown assignor %s", name)
			}
			balancers = append(balancers, b())
		}
		return []kgo.Opt{kgo.Balancers(balancers...)}, nil
	},
}

// strategies are Kafka's assignors by the simple names of their classes.
var strategies = map[string]func() kgo.GroupBalancer{
	"RangeAssignor": kgo.RangeBalancer, "range": kgo.RangeBalancer,
	"RoundRobinAssignor": kgo.RoundRobinBalancer, "roundrobin": kgo.RoundRobinBalancer,
	"StickyAssignor": kgo.StickyBalancer, "sticky": kgo.StickyBalancer,
	"CooperativeStickyAssignor": kgo.CooperativeStickyBalancer, "cooperative-sticky": kgo.CooperativeStickyBalancer,
}
