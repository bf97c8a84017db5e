package config

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var testSchema = NewSchema([]Key{
	{Name: "node.id", Type: Int, Default: "1", Valid: AtLeast(0)},
	{Name: "num.partitions", Type: Int, Default: "1", Valid: AtLeast(1)},
	{Name: "log.retention.ms", Type: Long, Null: true},
	{Name: "log.retention.hours", Type: Int, Default: "168"},
	{Name: "log.dirs", Type: List, Null: true},
	{Name: "cleanup.policy", Type: List, Default: "delete", Valid: ListOf(false, "compact", "delete")},
	{Name: "ratio", Type: Double, Default: "0.5", Valid: Between(0, 1)},
	{Name: "auto.create.topics.enable", Type: Boolean, Default: "true"},
	{Name: "codec", Type: String, Default: "producer", Valid: OneOf("producer", "zstd", "lz4")},
	{Name: "factor", Type: Short, Default: "3"},
	{Name: "ssl.key.password", Type: Password, Null: true},
	{Name: "odd_name-here", Type: String},
}).Retire(map[string]string{"zookeeper.connect": "not needed any more"})

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "server.properties")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLayersOverride(t *testing.T) {
	file := writeFile(t, "# a comment\nnode.id = 2\nnum.partitions:3\nlog.dirs=/a, /b\ncodec=lz4\n")
	v, err := Load(testSchema, Options{
		File: file,
		Env:  []string{"HOME=/root", "CAUCE_NUM_PARTITIONS=4", "CAUCE_CODEC=zstd", "CAUCE_ODD__NAME___HERE=x"},
		Set:  []string{"num.partitions=5", "auto.create.topics.enable=FALSE"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := v.Int("node.id"); got != 2 {
		t.Errorf("node.id = %d, want 2 of the file", got)
	}
	if got := v.String("codec"); got != "zstd" {
		t.Errorf("codec = %q, want zstd of the environment", got)
	}
	if got := v.Int("num.partitions"); got != 5 {
		t.Errorf("num.partitions = %d, want 5 of the flag", got)
	}
	if v.Bool("auto.create.topics.enable") {
		t.Error("auto.create.topics.enable: want false")
	}
	if got := v.List("log.dirs"); !slices.Equal(got, []string{"/a", "/b"}) {
		t.Errorf("log.dirs = %q", got)
	}
	sources := map[string]string{
		"node.id": file + ":2", "codec": "env CAUCE_CODEC", "num.partitions": "--set", "ratio": "default", "odd_name-here": "env CAUCE_ODD__NAME___HERE",
	}
	for name, want := range sources {
		if got := v.Source(name); got != want {
			t.Errorf("source of %s = %q, want %q", name, got, want)
		}
	}
}

func TestVariablesOfTheKafkaImage(t *testing.T) {
	v, err := Load(testSchema, Options{
		File: writeFile(t, "node.id=2\ncodec=lz4\nfactor=1"),
		Env: []string{
			"CAUCE_CODEC=producer", "KAFKA_NODE_ID=4", "KAFKA_CODEC=zstd", "KAFKA_ODD__NAME___HERE=x", "KAFKA_HEAP_OPTS=-Xmx1g",
			"KAFKA_NUM_PARTITION=3", "KAFKA_ZOOKEEPER_CONNECT=z", "MY_KAFKA_NODE_ID=9",
		},
		Set: []string{"factor=2"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"node.id": "4", "codec": "producer", "odd_name-here": "x", "factor": "2"}
	if got := maps.Collect(v.All()); !maps.Equal(got, want) {
		t.Errorf("values are %v, want %v", got, want)
	}
	if got := v.Source("node.id"); got != "env KAFKA_NODE_ID" {
		t.Errorf("node.id comes from %s", got)
	}
	passedOver := []string{
		"env KAFKA_HEAP_OPTS: heap.opts: unknown key",
		"env KAFKA_NUM_PARTITION: num.partition: unknown key, did you mean num.partitions?",
		"env KAFKA_ZOOKEEPER_CONNECT: zookeeper.connect: not needed any more",
	}
	if got := v.PassedOver(); !slices.Equal(got, passedOver) {
		t.Errorf("passed over:\n%s", strings.Join(got, "\n"))
	}
	if _, err := Load(testSchema, Options{Env: []string{"KAFKA_NODE_ID=x"}}); err == nil || !strings.Contains(err.Error(), "env KAFKA_NODE_ID: node.id=x") {
		t.Errorf("a wrong value of a key that there is: %v", err)
	}
}

func TestEveryFaultIsReportedAtOnceWithItsPlace(t *testing.T) {
	file := writeFile(t, strings.Join([]string{
		"num.partition=3",
		"num.partitions=0",
		"",
		"ratio=much",
		"zookeeper.connect=localhost",
		"ssl.key.password=hunter2",
		"node.id=1",
		"node.id=2",
		`codec=\u12`,
		"factor=40000",
	}, "\n"))
	_, err := Load(testSchema, Options{
		File: file,
		Env:  []string{"CAUCE_NODE_ID=minus"},
		Set:  []string{"cleanup.policy=delete,compcat", "nonsense", "auto.create.topics.enable=yes"},
	})
	var faults Faults
	if !errors.As(err, &faults) {
		t.Fatalf("error is %T %v", err, err)
	}
	want := []string{
		file + ":1: num.partition: unknown key, did you mean num.partitions?",
		file + ":2: num.partitions=0: below the least value 1",
		file + ":4: ratio=much: not a number",
		file + ":5: zookeeper.connect: not needed any more",
		file + ":8: node.id: already set in line 7",
		file + `:9: codec: \u needs four hexadecimal digits`,
		file + ":10: factor=40000: not a whole number from -32768 to 32767",
		"env CAUCE_NODE_ID: node.id=minus: not a whole number from -2147483648 to 2147483647",
		"--set: cleanup.policy=delete,compcat: not one of compact, delete (did you mean compact?)",
		"--set: nonsense: not of the form key=value",
		"--set: auto.create.topics.enable=yes: not a boolean (true or false)",
	}
	for i, f := range faults {
		if i >= len(want) || f.Error() != want[i] {
			t.Errorf("fault %d: %s", i, f)
		}
	}
	if len(faults) != len(want) {
		t.Errorf("%d faults, want %d", len(faults), len(want))
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Error("a secret is in the error")
	}
}

func TestSecretsAreHidden(t *testing.T) {
	v, err := FromMap(testSchema, map[string]string{"ssl.key.password": "hunter2", "node.id": "7"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"ssl.key.password": "[hidden]", "node.id": "7"}
	if got := maps.Collect(v.All()); !maps.Equal(got, want) {
		t.Errorf("All() = %v, want %v", got, want)
	}
	if got := v.String("ssl.key.password"); got != "hunter2" {
		t.Errorf("String() = %q", got)
	}
	secret := NewSchema([]Key{{Name: "p", Type: Password, Null: true, Valid: OneOf("a")}})
	if _, err := FromMap(secret, map[string]string{"p": "hunter2"}); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error is %v", err)
	}
}

func TestNullAndDefault(t *testing.T) {
	v := testSchema.Defaults()
	if text, ok := v.Lookup("log.retention.ms"); ok {
		t.Errorf("log.retention.ms = %q, want null", text)
	}
	if v.Long("log.retention.ms") != 0 || v.List("log.dirs") != nil {
		t.Error("null does not read as the zero value")
	}
	if v.Given("node.id") {
		t.Error("node.id is given by default")
	}
	w, err := v.With(map[string]string{"node.id": "1"}, "test")
	if err != nil || !w.Given("node.id") || v.Given("node.id") {
		t.Errorf("With: %v, given %v, the original given %v", err, w.Given("node.id"), v.Given("node.id"))
	}
}

func TestDurationsAreCapped(t *testing.T) {
	for text, longest := range map[string]time.Duration{"9223372036854775807": 1, "-9223372036854775808": -1} {
		v, err := FromMap(testSchema, map[string]string{"log.retention.ms": text})
		if err != nil {
			t.Fatal(err)
		}
		for unit, got := range map[string]time.Duration{
			"milliseconds": v.DurationMs("log.retention.ms"), "minutes": v.Duration("log.retention.ms", time.Minute), "hours": v.Duration("log.retention.ms", time.Hour),
		} {
			if got*longest < 200*365*24*time.Hour {
				t.Errorf("%s %s are %v", text, unit, got)
			}
		}
	}
	v, err := FromMap(testSchema, map[string]string{"log.retention.hours": "2147483647"})
	if err != nil {
		t.Fatal(err)
	}
	if got := v.Duration("log.retention.hours", time.Minute); got < 200*365*24*time.Hour {
		t.Errorf("the greatest int of minutes is %v", got)
	}
}

func TestMisuseOfKeysPanics(t *testing.T) {
	v := testSchema.Defaults()
	for name, misuse := range map[string]func(){
		"unknown name": func() { v.Int("no.such.key") },
		"wrong type":   func() { v.Int("codec") },
		"duplicate":    func() { NewSchema([]Key{{Name: "a", Type: String}, {Name: "a", Type: String}}) },
		"bad default":  func() { NewSchema([]Key{{Name: "a", Type: Int, Default: "x"}}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s did not panic", name)
				}
			}()
			misuse()
		}()
	}
}

func TestListenerPrefixedKeysAreTheirPlainKey(t *testing.T) {
	v, err := FromMap(testSchema, map[string]string{
		"listener.name.internal.ssl.key.password":               "a",
		"listener.name.internal.scram-sha-256.ssl.key.password": "b",
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := v.String("listener.name.internal.ssl.key.password"); got != "a" {
		t.Errorf("value = %q", got)
	}
	if _, ok := testSchema.Lookup("listener.name.internal.no.such.key"); ok {
		t.Error("an unknown key is accepted behind a listener prefix")
	}
}

func TestEnvNameIsInvertible(t *testing.T) {
	for k := range testSchema.Keys() {
		if got := keyOfEnv(EnvName(k.Name), EnvPrefix); got != k.Name {
			t.Errorf("%s becomes %s becomes %s", k.Name, EnvName(k.Name), got)
		}
	}
}

func TestMissingFile(t *testing.T) {
	if _, err := Load(testSchema, Options{File: filepath.Join(t.TempDir(), "none")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error is %v", err)
	}
}
