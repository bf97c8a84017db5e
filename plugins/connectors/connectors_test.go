package connectors

import (
	"testing"

	"github.com/cauce-stream/cauce/libs/plugin"
)

// TestOffsetsOfSinksFollow since users would be told else to put right by hand what no sink that ships keeps.
func TestOffsetsOfSinksFollow(t *testing.T) {
	for _, p := range All() {
		if _, ok := p.(plugin.SinkConnector); !ok {
			continue
		}
		a, ok := p.(plugin.SinkOffsetAlterer)
		if !ok {
			t.Errorf("%T does not say whether offsets follow", p)
			continue
		}
		if handled, err := a.AlterOffsets(t.Context(), nil, map[plugin.TopicPartition]int64{{Topic: "t"}: 7}); !handled || err != nil {
			t.Errorf("%T: %t, %v", p, handled, err)
		}
	}
}
