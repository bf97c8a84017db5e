package clientconfig

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/libs/config"
)

// TestEveryProperty has clients be made with each property at values that users have, and at the ends of what is taken.
func TestEveryProperty(t *testing.T) {
	good := map[string][]string{
		"bootstrap.servers": {"localhost:9092", " a:1 , b:2"}, "client.id": {"", "me"}, "client.rack": {"r1"},
		"metadata.max.age.ms": {"0", "300000"}, "connections.max.idle.ms": {"540000"}, "socket.connection.setup.timeout.ms": {"10000"},
		"retry.backoff.ms": {"0", "100"}, "security.protocol": {"PLAINTEXT", "ssl"},
		"acks": {"all", "-1", "1", "0"}, "linger.ms": {"0", "5", "9223372036854775807"}, "compression.type": {"none", "gzip", "snappy", "lz4", "zstd"},
		"max.request.size": {"1048576", "209715200", "2147483647"}, "buffer.memory": {"33554432"}, "max.in.flight.requests.per.connection": {"1", "5"},
		"enable.idempotence": {"true", "false"}, "delivery.timeout.ms": {"120000", "2147483647"}, "request.timeout.ms": {"30000", "2147483647"},
		"retries": {"0", "2147483647"}, "transaction.timeout.ms": {"60000"},
		"batch.size": {"0", "16384"}, "max.block.ms": {"60000"}, "max.poll.records": {"1", "2147483647"}, "group.protocol": {"classic", "CONSUMER"},
		"group.remote.assignor": {"uniform", "range"}, "enable.auto.commit": {"false", "true"},
		"group.instance.id": {"one"}, "auto.offset.reset": {"earliest", "latest", "none"}, "isolation.level": {"read_committed", "read_uncommitted"},
		"fetch.min.bytes": {"1", "1048576"}, "fetch.max.bytes": {"52428800", "2147483647"}, "max.partition.fetch.bytes": {"1048576", "2147483647"},
		"fetch.max.wait.ms": {"0", "500"}, "session.timeout.ms": {"45000"}, "heartbeat.interval.ms": {"3000"}, "max.poll.interval.ms": {"300000", "2147483647"},
		"partition.assignment.strategy": {"org.apache.kafka.clients.consumer.RangeAssignor, org.apache.kafka.clients.consumer.CooperativeStickyAssignor", "roundrobin", "sticky"},
	}
	for _, table := range []map[string]reader{common, producer, consumer} {
		for name := range table {
			if len(good[name]) == 0 {
				t.Errorf("%s has no test", name)
			}
			for _, value := range good[name] {
				p := Properties{name: value}
				for role, options := range map[string]func() ([]kgo.Opt, error){"common": p.Common, "producer": p.Producer, "consumer": p.Consumer} {
					opts, err := options()
					if err != nil {
						t.Errorf("%s=%s of a %s: %v", name, value, role, err)
						continue
					}
					switch role {
					case "producer":
						opts = append([]kgo.Opt{kgo.DisableIdempotentWrite()}, opts...) // as tasks have it
					case "consumer":
						opts = append(opts, kgo.ConsumerGroup("g"), kgo.ConsumeTopics("t"))
					}
					client, err := kgo.NewClient(opts...)
					if err != nil {
						t.Errorf("%s=%s of a %s: %v", name, value, role, err)
						continue
					}
					client.Close()
				}
			}
			if unknown := (Properties{name: ""}).Unknown(); len(unknown) > 0 {
				t.Errorf("%s is not known", name)
			}
		}
	}
	p := Properties{Idempotence: "true", "max.in.flight.requests.per.connection": "5"}
	options, err := p.Producer()
	if err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		t.Fatalf("an idempotent producer with requests in flight: %v", err)
	}
	client.Close()
	p["max.in.flight.requests.per.connection"] = "6"
	if _, err := p.Producer(); err == nil || !strings.Contains(err.Error(), "not a number between 1 and 5") {
		t.Errorf("6 requests in flight of an idempotent producer: %v", err)
	}
	p = Properties{"acks": "all", "group.protocol": "consumer", "group.remote.assignor": "uniform", "send.buffer.bytes": "1", "acsk": "all"}
	if got, want := p.Unknown(), []string{"acsk", "send.buffer.bytes"}; !slices.Equal(got, want) {
		t.Errorf("unknown: %v, want %v", got, want)
	}
}

// TestBadValues has an error name the property and what it may be.
func TestBadValues(t *testing.T) {
	for _, test := range []struct{ name, value, want string }{
		{"acks", "2", "acks=2: not among -1, 0, 1, all"},
		{"linger.ms", "soon", "linger.ms=soon: not a number of milliseconds"},
		{"linger.ms", "-1", "not a number of milliseconds"},
		{"retries", "-1", "not a number between 0 and 2147483647"},
		{"fetch.max.bytes", "2147483648", "not a number between 1 and 2147483647"},
		{"max.poll.records", "zz", "max.poll.records=zz: not a number between 1 and 2147483647"},
		{"max.poll.records", "0", "not a number between 1 and 2147483647"},
		{"group.protocol", "share", "group.protocol=share: not among classic, consumer"},
		{"batch.size", "big", "not a number between 0 and 2147483647"},
		{"partition.assignment.strategy", "org.example.Mine", "unknown assignor org.example.Mine"},
		{"security.protocol", "TLS", "not among PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"},
	} {
		p := Properties{test.name: test.value}
		_, err := p.Producer()
		if _, second := p.Consumer(); err == nil {
			err = second
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s=%s: %v, want %s", test.name, test.value, err, test.want)
		}
	}
}

// TestEachBadValueIsNamed has all that is wrong be said at once.
func TestEachBadValueIsNamed(t *testing.T) {
	_, err := Properties{"acks": "some", "linger.ms": "5", "retries": "-1"}.Producer()
	var faults config.Faults
	if !errors.As(err, &faults) || len(faults) != 2 || faults[0].Name != "acks" || faults[1].Name != "retries" {
		t.Errorf("%v", err)
	}
}

// newCertificate is one that signs itself, with its key, as PEM.
func newCertificate(t *testing.T) (chain, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
}

func TestSecurity(t *testing.T) {
	chain, key := newCertificate(t)
	file := filepath.Join(t.TempDir(), "store.pem")
	if err := os.WriteFile(file, []byte(chain+key), 0o600); err != nil {
		t.Fatal(err)
	}
	const ana = `m required username="ana" password="hunter2";`
	for _, test := range []struct {
		p    Properties
		want string // of the error; empty for none
	}{
		{Properties{"security.protocol": "SSL"}, ""},
		{Properties{"security.protocol": "SSL", "ssl.truststore.certificates": chain, "ssl.keystore.certificate.chain": chain, "ssl.keystore.key": key}, ""},
		{Properties{"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": file, "ssl.keystore.type": "pem", "ssl.keystore.location": file}, ""},
		{Properties{"security.protocol": "SSL", "ssl.truststore.location": file}, "ssl.truststore.type=: only PEM can be read"},
		{Properties{"security.protocol": "SSL", "ssl.truststore.type": "JKS", "ssl.truststore.location": file}, "ssl.truststore.type=JKS: only PEM can be read"},
		{Properties{"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": file + ".gone"}, "ssl.truststore.location"},
		{Properties{"security.protocol": "SSL", "ssl.truststore.certificates": key}, "ssl.truststore has no certificate"},
		{Properties{"security.protocol": "SSL", "ssl.keystore.certificate.chain": chain}, "ssl.keystore"},
		{Properties{"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": ana}, ""},
		{Properties{"security.protocol": "SASL_SSL", "sasl.mechanism": "scram-sha-256", "sasl.jaas.config": ana}, ""},
		{Properties{"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": ana}, ""},
		{Properties{"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI", "sasl.jaas.config": ana}, "sasl.mechanism=GSSAPI is not among PLAIN"},
		{Properties{"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "sasl.jaas.config: it names no login module"},
		{Properties{"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": `m required password="hunter2";`}, "sasl.jaas.config has no username"},
		{Properties{"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": `m required username=ana password="hunter2"`}, "semicolon"},
	} {
		opts, err := test.p.Common()
		if test.want != "" {
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "PRIVATE") {
				t.Errorf("%v: %v, want %s", slices.Sorted(maps.Keys(test.p)), err, test.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%v: %v", slices.Sorted(maps.Keys(test.p)), err)
			continue
		}
		client, err := kgo.NewClient(opts...)
		if err != nil {
			t.Fatal(err)
		}
		client.Close()
	}
}

// TestCertificatesOfOtherNames are trusted without ssl.endpoint.identification.algorithm if they are signed as they have to be, and only then.
func TestCertificatesOfOtherNames(t *testing.T) {
	chain, _ := newCertificate(t)
	other, _ := newCertificate(t)
	p := Properties{"ssl.truststore.certificates": chain, "ssl.endpoint.identification.algorithm": ""}
	c, err := p.tls()
	if err != nil {
		t.Fatal(err)
	}
	for text, good := range map[string]bool{chain: true, other: false} {
		block, _ := pem.Decode([]byte(text))
		one, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.VerifyConnection(tls.ConnectionState{PeerCertificates: []*x509.Certificate{one}}); (err == nil) != good {
			t.Errorf("trusted %t: %v", good, err)
		}
	}
}
