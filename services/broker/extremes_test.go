package broker

import (
	"math"
	"strconv"
	"testing"

	"github.com/cauce-stream/cauce/libs/config"
	"github.com/cauce-stream/cauce/libs/kafka/configkeys"
	"github.com/cauce-stream/cauce/libs/log"
)

// TestLogsUnderstandWhatKeysAccept holds the config of logs against the topic keys, and the broker keys behind them: what they accept has
// to come to a config, as a topic whose config is malformed is kept by other rules than its own.
func TestLogsUnderstandWhatKeysAccept(t *testing.T) {
	tried := 0
	try := func(schema *config.Schema, name string, configOf func(value string) map[string]string) {
		for _, n := range []int64{math.MinInt64, math.MinInt32, -2, -1, 0, 1, 4, 100, math.MaxInt32, math.MaxInt64} {
			value := strconv.FormatInt(n, 10)
			if schema.Check(name, value) != nil {
				continue
			}
			tried++
			if _, err := log.ParseConfig(configOf(value)); err != nil {
				t.Errorf("%s=%s is accepted, and then: %v", name, value, err)
			}
		}
	}
	for k := range configkeys.Topic().Keys() {
		if k.Type == config.Int || k.Type == config.Long {
			try(configkeys.Topic(), k.Name, func(value string) map[string]string { return map[string]string{k.Name: value} })
		}
	}
	for k := range configkeys.Broker().Keys() {
		if len(configkeys.Followers(k.Name)) == 0 || k.Type != config.Int && k.Type != config.Long {
			continue
		}
		try(configkeys.Broker(), k.Name, func(value string) map[string]string {
			static, err := config.FromMap(configkeys.Broker(), map[string]string{k.Name: value})
			if err != nil {
				t.Fatal(err)
			}
			return configkeys.TopicConfig(static, nil, nil, nil)
		})
	}
	if tried < 200 {
		t.Errorf("only %d values tried", tried)
	}
}
