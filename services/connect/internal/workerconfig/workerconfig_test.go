package workerconfig

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/cauce-stream/cauce/libs/config"
)

// least is what a worker cannot do without.
func least(more ...string) map[string]string {
	p := map[string]string{
		"group.id": "workers", "key.converter": "JsonConverter", "value.converter": "JsonConverter",
		"config.storage.topic": "configs", "offset.storage.topic": "offsets", "status.storage.topic": "status",
	}
	for i := 0; i < len(more); i += 2 {
		p[more[i]] = more[i+1]
	}
	return p
}

func TestDefaults(t *testing.T) {
	c, err := Parse(least(), "worker.properties")
	if err != nil {
		t.Fatal(err)
	}
	if c.Int("session.timeout.ms") != 10_000 || c.String("connect.protocol") != "sessioned" || c.Int("offset.storage.partitions") != 25 || c.Int("status.storage.partitions") != 5 ||
		c.Get("listeners") != "http://:8083" || c.Long("offset.flush.interval.ms") != 60_000 || c.String("exactly.once.source.support") != "disabled" {
		t.Error("a default is not Kafka's")
	}
	if _, set := c.Lookup("admin.listeners"); set {
		t.Error("admin.listeners has a default")
	}
	if len(c.Family(Producer)) != 0 {
		t.Error("a family has members")
	}
}

func TestFamilies(t *testing.T) {
	c, err := Parse(least(
		"key.converter.schemas.enable", "false", "value.converter.schemas.enable", "true", "producer.acks", "1", "consumer.max.poll.records", "7", "admin.request.timeout.ms", "5",
		"config.storage.min.insync.replicas", "2", "offset.storage.cleanup.policy", "compact", "admin.listeners", "http://127.0.0.1:9083", "config.storage.replication.factor", "-1",
		"config.providers", "file, env", "config.providers.file.class", "FileConfigProvider", "config.providers.env.class", "EnvVarConfigProvider", "config.providers.env.param.allowlist.pattern", "X.*",
		"security.protocol", "SASL_PLAINTEXT", "sasl.mechanism", "PLAIN",
	), "worker.properties")
	if err != nil {
		t.Fatal(err)
	}
	for family, want := range map[string]map[string]string{
		KeyConverter: {"schemas.enable": "false"}, ValueConverter: {"schemas.enable": "true"}, Producer: {"acks": "1"}, Consumer: {"max.poll.records": "7"}, Admin: {"request.timeout.ms": "5"},
		ConfigTopic: {"min.insync.replicas": "2"}, OffsetTopic: {"cleanup.policy": "compact"}, Security: {"protocol": "SASL_PLAINTEXT"}, SASL: {"mechanism": "PLAIN"},
		Providers: {"file.class": "FileConfigProvider", "env.class": "EnvVarConfigProvider", "env.param.allowlist.pattern": "X.*"},
	} {
		if got := c.Family(family); !maps.Equal(got, want) {
			t.Errorf("%s: %v", family, got)
		}
	}
	c.Family(Producer)["acks"] = "0"
	if c.Family(Producer)["acks"] != "1" {
		t.Error("a family can be changed from outside")
	}
}

func TestFaults(t *testing.T) {
	for _, test := range []struct{ key, value, want string }{
		{"group.id", "", "group.id"},
		{"sesion.timeout.ms", "1", "did you mean session.timeout.ms"},
		{"session.timeout.ms", "ten", "session.timeout.ms=ten"},
		{"heartbeat.interval.ms", "10000", "shorter than session.timeout.ms"},
		{"connect.protocol", "sesioned", "did you mean sessioned"},
		{"rest.extension.classes", "org.example.Guard", "open to all"},
		{"config.storage.replication.factor", "0", "config.storage.replication.factor=0"},
		{"config.storage.partitions", "2", "one partition"},
		{"config.storage.cleanup.policy", "delete", "compacted"},
		{"offset.storage.cleanup.policy", "compact,delete", "compacted"},
		{"status.storage.topic", "offsets", "is also offset.storage.topic"},
		{"listeners", "127.0.0.1:8083", "listeners"},
		{"listeners", "ftp://a:1", "neither with http"},
		{"listeners", "http://a", "http://host:port"},
		{"inter.worker.signature.algorithm", "HmacSHA512", "verification.algorithms"},
		{"config.providers", "vault", "provider vault has no class"},
		{"rest.port", "8083", "use listeners"},
		{"exactly.once.source.support", "yes", "exactly.once.source.support"},
		{"producer.", "x", "unknown key"},
	} {
		_, err := Parse(least(test.key, test.value), "w")
		var faults config.Faults
		if !errors.As(err, &faults) || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "w: ") {
			t.Errorf("%s=%s: %v", test.key, test.value, err)
		}
	}
	_, err := Parse(nil, "w")
	var faults config.Faults
	if !errors.As(err, &faults) || len(faults) != 6 {
		t.Errorf("nothing is set: %v", err)
	}
}
