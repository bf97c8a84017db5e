// Package clientconfig makes options of a franz-go client of the properties of Kafka's Java clients, as workers and connectors have them behind producer.,
// consumer. and admin.
package clientconfig

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/libs/config"
)

// Properties are those of a client, by Kafka's names.
type Properties map[string]string

// reader turns the text of a property into options.
type reader func(p Properties, value string) ([]kgo.Opt, error)

// common are the properties of all clients.
var common = map[string]reader{
	"bootstrap.servers": func(_ Properties, value string) ([]kgo.Opt, error) {
		return []kgo.Opt{kgo.SeedBrokers(elements(value)...)}, nil
	},
	"client.id":   text(kgo.ClientID),
	"client.rack": text(kgo.Rack),
	"metadata.max.age.ms": durations(func(d time.Duration) []kgo.Opt {
		return []kgo.Opt{kgo.MetadataMaxAge(max(d, minMetadataAge)), kgo.MetadataMinAge(refreshAge)}
	}),
	"connections.max.idle.ms":            millis(func(d time.Duration) kgo.Opt { return kgo.ConnIdleTimeout(d) }),
	"socket.connection.setup.timeout.ms": millis(func(d time.Duration) kgo.Opt { return kgo.DialTimeout(d) }),
	"retry.backoff.ms": millis(func(d time.Duration) kgo.Opt {
		return kgo.RetryBackoffFn(func(int) time.Duration { return d })
	}),
	"security.protocol": security,
}

const (
	// minMetadataAge is the least that the client takes for the greatest age.
	minMetadataAge = time.Second
	// refreshAge is how old metadata has to be for the client to ask again before that. The client's own is 5 s, and no greatest age may be below it.
	refreshAge = 500 * time.Millisecond
)

// Common returns the options that a client of any kind has. As with the others the error is config.Faults, with each property that is wrong.
func (p Properties) Common() ([]kgo.Opt, error) { return p.options(common) }

// Producer returns the options of a producer.
func (p Properties) Producer() ([]kgo.Opt, error) { return p.options(common, producer) }

// Consumer returns the options of a consumer.
func (p Properties) Consumer() ([]kgo.Opt, error) { return p.options(common, consumer) }

func (p Properties) options(tables ...map[string]reader) ([]kgo.Opt, error) {
	var options []kgo.Opt
	var faults config.Faults
	for _, name := range slices.Sorted(maps.Keys(p)) {
		for _, table := range tables {
			read, ok := table[name]
			if !ok {
				continue
			}
			some, err := read(p, strings.TrimSpace(p[name]))
			if err != nil {
				faults = append(faults, &config.Fault{Name: name, Value: p[name], Reason: err.Error()})
			}
			options = append(options, some...)
		}
	}
	if faults != nil {
		return nil, faults
	}
	return options, nil
}

// Unknown are the names of properties that no client here has a use for, sorted: properties of the Java clients that mean nothing here among them.
func (p Properties) Unknown() []string {
	var names []string
	for name := range p {
		known := noted[name]
		for _, table := range []map[string]reader{common, producer, consumer} {
			_, ok := table[name]
			known = known || ok
		}
		if !known {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// noted are properties that others read, the tasks or security here.
var noted = map[string]bool{
	"partitioner.class": true, "group.id": true, "sasl.mechanism": true, "sasl.jaas.config": true, "ssl.truststore.type": true,
	"ssl.truststore.certificates": true, "ssl.truststore.location": true, "ssl.keystore.type": true, "ssl.keystore.certificate.chain": true,
	"ssl.keystore.key": true, "ssl.keystore.location": true, "ssl.endpoint.identification.algorithm": true,
	"key.serializer": true, "value.serializer": true, "key.deserializer": true, "value.deserializer": true,
}

// nothing is what a client has of a property that the tasks read, or that only has to be right.
func nothing[T any](T) []kgo.Opt { return nil }

func elements(list string) []string {
	var all []string
	for e := range strings.SplitSeq(list, ",") {
		if e = strings.TrimSpace(e); e != "" {
			all = append(all, e)
		}
	}
	return all
}

func text[O kgo.Opt](option func(string) O) reader {
	return func(_ Properties, value string) ([]kgo.Opt, error) { return []kgo.Opt{option(value)}, nil }
}

func millis(option func(time.Duration) kgo.Opt) reader {
	return durations(func(d time.Duration) []kgo.Opt { return []kgo.Opt{option(d)} })
}

func durations(options func(time.Duration) []kgo.Opt) reader {
	return func(_ Properties, value string) ([]kgo.Opt, error) {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("not a number of milliseconds")
		}
		const most = int64(1<<63-1) / int64(time.Millisecond)
		return options(time.Duration(min(n, most)) * time.Millisecond), nil
	}
}

func number(least, most int64, option func(int64) kgo.Opt) reader {
	return numbers(least, most, func(n int64) []kgo.Opt { return []kgo.Opt{option(n)} })
}

func numbers(least, most int64, options func(int64) []kgo.Opt) reader {
	return func(_ Properties, value string) ([]kgo.Opt, error) {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < least || n > most {
			return nil, fmt.Errorf("not a number between %d and %d", least, most)
		}
		return options(n), nil
	}
}

func choice(options map[string]kgo.Opt) reader {
	return func(_ Properties, value string) ([]kgo.Opt, error) {
		o, ok := options[strings.ToLower(value)]
		if !ok {
			return nil, fmt.Errorf("not among %s", strings.Join(slices.Sorted(maps.Keys(options)), ", "))
		}
		if o == nil {
			return nil, nil
		}
		return []kgo.Opt{o}, nil
	}
}
