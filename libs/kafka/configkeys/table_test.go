package configkeys

import (
	"bufio"
	"os"
	"strings"
	"testing"

	"github.com/cauce-stream/cauce/libs/config"
)

// deliberate are the defaults that differ from Kafka's, with Cauce's own ("null" for none).
var deliberate = map[string]string{
	"node.id": "1",    // one node needs no number
	"log.dir": "null", // a folder in data.dir rather than in /tmp

	// What the system allots as a connection needs it takes a quarter less CPU for large requests.
	"socket.receive.buffer.bytes": "-1",
}

// readAtStart are the keys that Kafka can change while a node runs, and Cauce cannot.
var readAtStart = map[string]bool{"listeners": true, "listener.security.protocol.map": true, "num.recovery.threads.per.data.dir": true}

// TestTablesAreKafkas compares every key of Apache Kafka with ours: a tool that
// reads a key, its type, its default or its limits finds the same (pitfall BL-109).
func TestTablesAreKafkas(t *testing.T) {
	file, err := os.Open("testdata/kafka-4.4.0.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	schemas := map[string]*config.Schema{"broker": Broker(), "topic": Topic(), "group": Group(), "client-metrics": ClientMetrics()}
	compared := 0
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		f := strings.Split(lines.Text(), "\t")
		kind, name, typ, def, accepted, mode := f[0], f[1], f[2], f[3], f[4], f[5]
		k, ok := schemas[kind].Lookup(name)
		if !ok {
			t.Errorf("%s key %s is missing", kind, name)
			continue
		}
		if want, ok := deliberate[name]; ok && kind == "broker" {
			def = want
		}
		ours := k.Default
		if k.Null {
			ours = "null"
		}
		if string(k.Type) != typ || ours != def {
			t.Errorf("%s key %s is %s %q, Kafka's is %s %q", kind, name, k.Type, ours, typ, def)
		}
		if strings.Contains(accepted, ",...") && !strings.Contains(accepted, ":") && k.Valid.Text != accepted {
			t.Errorf("%s key %s accepts %s, Kafka's %s", kind, name, k.Valid.Text, accepted)
		}
		if readAtStart[name] {
			mode = config.ReadOnly.String()
		}
		if kind == "broker" && k.Update.String() != mode {
			t.Errorf("%s key %s is %s, Kafka's %s", kind, name, k.Update, mode)
		}
		if k.Internal {
			t.Errorf("%s key %s is internal", kind, name)
		}
		compared++
	}
	if compared < 405 {
		t.Errorf("only %d keys compared", compared)
	}
}

func TestEveryKeyIsDocumented(t *testing.T) {
	for _, schema := range []*config.Schema{Broker(), Topic(), Group(), ClientMetrics()} {
		for k := range schema.Keys() {
			if k.Doc == "" || !strings.HasSuffix(k.Doc, ".") {
				t.Errorf("%s: documentation %q", k.Name, k.Doc)
			}
		}
	}
}

func TestUpdateModesAndSynonymsNameKeys(t *testing.T) {
	for name := range updateModes {
		if _, ok := Broker().Lookup(name); !ok {
			t.Errorf("update mode of %s, which is no broker key", name)
		}
	}
	for name, synonyms := range topicSynonyms {
		topic, ok := Topic().Lookup(name)
		if !ok {
			t.Errorf("synonyms of %s, which is no topic key", name)
		}
		for _, s := range synonyms {
			broker, ok := Broker().Lookup(s.name)
			if !ok {
				t.Errorf("%s stands in for %s and is no broker key", s.name, name)
			}
			if s.unitMs == 0 && !broker.Null && broker.Default != topic.Default {
				t.Errorf("%s is %s by default, %s is %s", name, topic.Default, s.name, broker.Default)
			}
		}
	}
}
