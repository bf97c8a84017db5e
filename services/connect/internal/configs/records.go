package configs

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
)

const (
	connectorPrefix = "connector-"
	targetPrefix    = "target-state-"
	taskPrefix      = "task-"
	commitPrefix    = "commit-"
	fencingPrefix   = "tasks-fencing-"
	restartPrefix   = "restart-connector-"
	loggerPrefix    = "logger-cluster-"
	sessionKey      = "session-key"
)

// maxTasks is more tasks than a connector can have: what a damaged record says must not take memory at its word.
const maxTasks = 1 << 20

type (
	propertiesValue struct {
		Properties map[string]any `json:"properties"`
	}
	targetValue struct {
		State   string `json:"state"`
		StateV2 string `json:"state.v2,omitempty"`
	}
	commitValue struct {
		Tasks *int32 `json:"tasks"`
	}
	fencingValue struct {
		TaskCount *int32 `json:"task-count"`
	}
	restartValue struct {
		IncludeTasks bool `json:"include-tasks"`
		OnlyFailed   bool `json:"only-failed"`
	}
	sessionKeyValue struct {
		Key               string `json:"key"`
		Algorithm         string `json:"algorithm"`
		CreationTimestamp int64  `json:"creation-timestamp"`
	}
	levelValue struct {
		Level string `json:"level"`
	}
)

// Record is a record to be written; a nil value is a tombstone.
type Record struct {
	Key   string
	Value []byte
}

// ConnectorRecord sets a connector's configuration.
func ConnectorRecord(name string, config Config) Record {
	return record(connectorPrefix+name, properties(config))
}

// RemovalRecords delete a connector. Its tasks' configurations stay in the topic, where nothing reads them without it.
func RemovalRecords(name string) []Record {
	return []Record{{Key: connectorPrefix + name}, {Key: targetPrefix + name}}
}

// TargetRecord sets what a connector is meant to do. Workers older than Kafka 3.5 read the first of its fields, and know no stopped connectors.
// It has to be written before the record of a connector that does not start at once.
func TargetRecord(name string, t Target) Record {
	old := t
	if t == Stopped {
		old = Paused
	}
	return record(targetPrefix+name, targetValue{old.String(), t.String()})
}

// TaskRecords set all tasks of a connector, the last of them being the commit.
func TaskRecords(name string, tasks []Config) []Record {
	records := make([]Record, 0, len(tasks)+1)
	for i, config := range tasks {
		records = append(records, record(fmt.Sprintf("%s%s-%d", taskPrefix, name, i), properties(config)))
	}
	n := int32(len(tasks))
	return append(records, record(commitPrefix+name, commitValue{&n}))
}

// FencingRecord says that earlier producers of the connector's tasks were fenced, for tasks of this number to start.
func FencingRecord(name string, tasks int) Record {
	n := int32(tasks)
	return record(fencingPrefix+name, fencingValue{&n})
}

// RestartRecord has all workers restart what they run of a connector.
func RestartRecord(r Restart) Record {
	return record(restartPrefix+r.Connector, restartValue{r.IncludeTasks, r.OnlyFailed})
}

// SessionKeyRecord gives the workers a new key.
func SessionKeyRecord(k SessionKey) Record {
	return record(sessionKey, sessionKeyValue{base64.StdEncoding.EncodeToString(k.Key), k.Algorithm, k.CreatedMs})
}

// LevelRecord sets the level of a logger on all workers.
func LevelRecord(logger, level string) Record { return record(loggerPrefix+logger, levelValue{level}) }

func record(key string, value any) Record {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		panic(fmt.Sprintf("configs: a record of strings and numbers: %v", err))
	}
	return Record{key, bytes.TrimSuffix(b.Bytes(), []byte("\n"))}
}

func properties(config Config) any {
	p := propertiesValue{Properties: make(map[string]any, len(config))}
	for key, value := range config {
		p.Properties[key] = value
	}
	return p
}

// unmarshal is json.Unmarshal for values that have to be objects.
func unmarshal(value []byte, to any) error {
	if value == nil {
		return errors.New("no value")
	}
	if trimmed := bytes.TrimLeft(value, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' {
		return errors.New("value is no JSON object")
	}
	return json.Unmarshal(value, to)
}

// parseProperties reads a configuration. Values that are not text, which Kafka's REST interface never lets in but other writers might,
// are taken as their text; null is as if the key were absent.
func parseProperties(value []byte) (Config, error) {
	var v struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if err := unmarshal(value, &v); err != nil {
		return nil, err
	}
	if v.Properties == nil {
		return nil, errors.New("value has no properties")
	}
	config := make(Config, len(v.Properties))
	for key, raw := range v.Properties {
		var text string
		switch {
		case string(raw) == "null":
			continue
		case raw[0] == '{' || raw[0] == '[':
			return nil, fmt.Errorf("property %q is no text", key)
		case json.Unmarshal(raw, &text) != nil:
			text = string(raw)
		}
		config[key] = text
	}
	return config, nil
}
