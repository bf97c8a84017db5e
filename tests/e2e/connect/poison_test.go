//go:build e2e && linux

package connect

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	poisonTopic = "poison"
	letters     = "dead-letters"
	errorPrefix = "__connect.errors."
)

// poisons are records that fail, each at another stage.
var poisons = map[string]*kgo.Record{
	"KEY_CONVERTER":    {Key: []byte("xyz"), Value: []byte(`{"n":"1"}`), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("1")}}},
	"VALUE_CONVERTER":  {Key: []byte{0, 0, 0, 1}, Value: []byte(`{`)},
	"HEADER_CONVERTER": {Key: []byte{0, 0, 0, 2}, Value: []byte(`{"n":"2"}`), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("{")}, {Key: "h", Value: nil}}},
	"TRANSFORMATION":   {Key: []byte{0, 0, 0, 3}, Value: []byte(`{"n":"none"}`), Headers: []kgo.RecordHeader{{Key: "other", Value: []byte(`"text"`)}}},
	"TASK_PUT":         {Key: []byte{0, 0, 0, 4}, Value: []byte(`{"n":"4","text":"refuse me"}`), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("[1]")}}},
}

// poisoned is the configuration of a sink that each poison fails in.
func (s *single) poisoned(topic string) config {
	return config{
		"connector.class": "witness-sink", "tasks.max": "1", "topics": topic, folderKey: s.folder, refuseKey: "refuse me",
		"key.converter": "org.apache.kafka.connect.converters.IntegerConverter", "value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false",
		"header.converter": "org.apache.kafka.connect.json.JsonConverter", "header.converter.schemas.enable": "false",
		"transforms": "number", "transforms.number.type": "org.apache.kafka.connect.transforms.Cast$Value", "transforms.number.spec": "n:int32",
	}
}

// feed writes a good record, the poisons, and another good record.
func (s *single) feed(topic string, some map[string]*kgo.Record) {
	s.Helper()
	s.create(topic)
	records := []*kgo.Record{{Topic: topic, Key: []byte{0, 0, 0, 9}, Value: []byte(`{"n":"8"}`)}}
	for _, r := range some {
		records = append(records, &kgo.Record{Topic: topic, Key: r.Key, Value: r.Value, Headers: r.Headers})
	}
	records = append(records, &kgo.Record{Topic: topic, Key: []byte{0, 0, 0, 9}, Value: []byte(`{"n":"9"}`)})
	for _, r := range records { // one by one, in their order
		if err := s.client().ProduceSync(s.Context(), r).FirstErr(); err != nil {
			s.Fatal(err)
		}
	}
}

// TestPoison has records fail at each stage of a sink and of a source. They go where the configuration says, and take no others with them.
func TestPoison(t *testing.T) {
	s := startSingle(t)
	s.feed(poisonTopic, poisons)
	quiet := s.poisoned(poisonTopic)
	quiet["errors.tolerance"] = "all"
	s.put("quiet", quiet)
	loud := maps.Clone(quiet)
	maps.Copy(loud, config{"errors.deadletterqueue.topic.name": letters, "errors.deadletterqueue.topic.replication.factor": "1", "errors.deadletterqueue.context.headers.enable": "true",
		"errors.log.enable": "true", "errors.log.include.messages": "true"})
	s.put("loud", loud)
	for _, name := range []string{"quiet", "loud"} {
		s.arrive(name+"-0", 2)
		s.await(name, "RUNNING", 1)
	}
	s.checkLetters()
	s.checkLog()
	s.mendPoisoned()
	s.tooLarge()
}

// checkLetters reads the dead letters as who mends them would, and has another sink take them.
func (s *single) checkLetters() {
	s.Helper()
	found := s.records(letters, len(poisons))
	if len(found) != len(poisons) {
		s.Errorf("%d dead letters of %d", len(found), len(poisons))
	}
	origin := s.records(poisonTopic, len(poisons)+2)
	for _, r := range found {
		says := map[string]string{}
		var own []kgo.RecordHeader
		for _, h := range r.Headers {
			if name, ok := strings.CutPrefix(h.Key, errorPrefix); ok {
				says[name] = string(h.Value)
			} else {
				own = append(own, h)
			}
		}
		was := poisons[says["stage"]]
		if was == nil {
			s.Errorf("a dead letter of the stage %q", says["stage"])
			continue
		}
		offset, err := strconv.Atoi(says["offset"])
		if err != nil || offset >= len(origin) || !same(origin[offset], was.Key, was.Value, was.Headers) {
			s.Errorf("%s is said to be of offset %q", says["stage"], says["offset"])
		}
		if !same(r, was.Key, was.Value, was.Headers) || len(own) != len(was.Headers) {
			s.Errorf("%s has become key %q, value %q, headers %v", says["stage"], r.Key, r.Value, own)
		}
		for name, want := range map[string]string{"topic": poisonTopic, "partition": "0", "connector.name": "loud", "task.id": "0"} {
			if says[name] != want {
				s.Errorf("%s: header %s is %q, not %q", says["stage"], name, says[name], want)
			}
		}
		for _, name := range []string{"class.name", "exception.class.name", "exception.message", "exception.stacktrace"} {
			if says[name] == "" {
				s.Errorf("%s has no header %s", says["stage"], name)
			}
		}
	}
	s.put("again", config{"connector.class": "witness-sink", "tasks.max": "1", "topics": letters, folderKey: s.folder, "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter"})
	s.arrive("again-0", len(poisons))
}

// same says whether a record has these bytes, and these headers first.
func same(r *kgo.Record, key, value []byte, headers []kgo.RecordHeader) bool {
	if !bytes.Equal(r.Key, key) || !bytes.Equal(r.Value, value) || len(r.Headers) < len(headers) {
		return false
	}
	for i, h := range headers {
		if r.Headers[i].Key != h.Key || !bytes.Equal(r.Headers[i].Value, h.Value) {
			return false
		}
	}
	return true
}

// checkLog wants each failure of the loud sink in the log, and none of the quiet one.
func (s *single) checkLog() {
	s.Helper()
	s.eventually("failures are logged", func(context.Context) error {
		log := s.server.Log()
		for stage := range poisons {
			logged := false
			for line := range strings.Lines(log) {
				failed := strings.Contains(line, "a record has failed")
				if failed && strings.Contains(line, `"connector":"quiet"`) {
					s.Fatalf("a quiet connector says %s", line)
				}
				logged = logged || failed && strings.Contains(line, `"connector":"loud"`) && strings.Contains(line, `"stage":"`+stage+`"`) && strings.Contains(line, `"offset":`)
			}
			if !logged {
				return fmt.Errorf("nothing of %s", stage)
			}
		}
		return nil
	})
}

// mendPoisoned has each poison fail a task that tolerates none, and goes on after it once it is tolerated.
func (s *single) mendPoisoned() {
	s.Helper()
	for stage, r := range poisons {
		topic := "only-" + stage
		s.feed(topic, map[string]*kgo.Record{stage: r})
		s.put(topic, s.poisoned(topic))
	}
	for stage := range poisons {
		name := "only-" + stage
		failing := name + "-0@1: " + stage
		if stage == "TASK_PUT" {
			failing = "it is refused" // by the witness, which says no more
		}
		s.eventually(name+" has failed", func(ctx context.Context) error {
			var got status
			if err := s.ask(ctx, http.MethodGet, "/connectors/"+name+"/status", nil, &got); err != nil {
				return err
			}
			if got.Connector.State != "RUNNING" || len(got.Tasks) != 1 || got.Tasks[0].State != "FAILED" || !strings.Contains(got.Tasks[0].Trace, failing) {
				return fmt.Errorf("it is %+v", got)
			}
			return nil
		})
		s.await("loud", "RUNNING", 1)
		tolerant := s.poisoned(name)
		tolerant["errors.tolerance"] = "all"
		s.put(name, tolerant)
		s.await(name, "RUNNING", 1)
		s.eventually(name+" has what is good", func(context.Context) error {
			all, err := testimonies(s.folder)
			// The first may have been put before the task failed, and was not committed then.
			if puts := all[name+"-0"].puts; err == nil && puts != 2 && puts != 3 {
				err = fmt.Errorf("it was put %d records", puts)
			}
			return err
		})
	}
}

// tooLarge has a source produce records that its topic does not take.
func (s *single) tooLarge() {
	s.Helper()
	source := config{"connector.class": "witness-source", "tasks.max": "1", folderKey: s.folder, largeKey: "20000", "topic.creation.default.partitions": "1",
		"topic.creation.default.replication.factor": "1", "topic.creation.default.max.message.bytes": "5000"}
	for name, tolerance := range map[string]string{"large-none": "none", "large-all": "all"} {
		one := maps.Clone(source)
		one["topic"], one["errors.tolerance"] = name, tolerance
		s.put(name, one)
	}
	s.eventually("a record that is too large fails its task", func(ctx context.Context) error {
		var got status
		if err := s.ask(ctx, http.MethodGet, "/connectors/large-none/status", nil, &got); err != nil {
			return err
		}
		if len(got.Tasks) != 1 || got.Tasks[0].State != "FAILED" || !strings.Contains(got.Tasks[0].Trace, "KAFKA_PRODUCE") {
			return fmt.Errorf("it is %+v", got)
		}
		return nil
	})
	for i, r := range s.records("large-none", 9) {
		if want := fmt.Sprint("0:", i); string(r.Value) != want || i >= 9 {
			s.Errorf("record %d is %.40q", i, r.Value)
		}
	}
	for i, r := range s.records("large-all", 20) {
		if want := fmt.Sprint("0:", i+i/9); string(r.Value) != want {
			s.Errorf("record %d is %.40q, not %s", i, r.Value, want)
		}
	}
	s.await("large-all", "RUNNING", 1)
}
