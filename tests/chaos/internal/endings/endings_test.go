package endings

import (
	"slices"
	"strings"
	"testing"

	"github.com/cauce-stream/cauce/libs/record"
	"github.com/cauce-stream/cauce/tests/finding"
)

// data is a batch of producer 7.
func data(t *testing.T, offset int64, epoch int16, transactional bool) []byte {
	t.Helper()
	b := record.NewBuilder()
	b.SetProducer(7, epoch, 0)
	if transactional {
		b.SetTransactional()
	}
	b.Append(0, nil, []byte("x"))
	built, err := b.Build(record.None, 0)
	if err != nil {
		t.Fatal(err)
	}
	built.SetBaseOffset(offset)
	return built
}

// mark ends the transaction of producer 7 whose epoch is the one before.
func mark(offset int64, epoch int16, how record.ControlType) []byte {
	b := record.EndTransaction(record.Marker{Type: how}, 7, epoch, 0)
	b.SetBaseOffset(offset)
	return b
}

func TestCheck(t *testing.T) {
	commit, abort := record.Commit, record.Abort
	sound := func() map[string][]byte {
		return map[string][]byte{
			"a": slices.Concat(data(t, 0, 3, true), data(t, 1, 3, true), mark(2, 4, commit), data(t, 3, 4, true), mark(4, 5, abort)),
			"b": slices.Concat(data(t, 0, 3, true), mark(1, 4, commit), mark(2, 5, abort), data(t, 3, 9, false)),
			"c": nil,
		}
	}
	tests := []struct {
		name     string
		change   func(logs map[string][]byte)
		want     []finding.Kind
		examples string
	}{
		{"sound", func(map[string][]byte) {}, nil, ""},
		{"two endings", func(logs map[string][]byte) { logs["c"] = slices.Concat(data(t, 0, 3, true), mark(1, 4, abort)) },
			[]finding.Kind{Split}, "that of producer 7 and epoch 3 ends at a@2 by 1, and at c@1 by 0"},
		{"a marker is missing before the next transaction", func(logs map[string][]byte) {
			logs["c"] = slices.Concat(data(t, 0, 3, true), data(t, 1, 4, true), mark(2, 5, abort))
		}, []finding.Kind{RunOn}, "c: that of producer 7 and epoch 3 is open from 0 on, and epoch 4 begins at 1"},
		{"a marker is missing in the end", func(logs map[string][]byte) { logs["c"] = data(t, 0, 3, true) },
			[]finding.Kind{Unended}, "c: that of producer 7 and epoch 3 is open from 0 on"},
		{"no log", func(logs map[string][]byte) { logs["c"] = []byte("x") }, []finding.Kind{Corrupt}, "c: "},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			logs := sound()
			test.change(logs)
			var kinds []finding.Kind
			var examples []string
			for _, f := range Check(logs) {
				kinds = append(kinds, f.Kind)
				examples = append(examples, f.Examples...)
			}
			if !slices.Equal(kinds, test.want) || !strings.Contains(strings.Join(examples, "\n"), test.examples) {
				t.Errorf("found %v: %q; want %v: %q", kinds, examples, test.want, test.examples)
			}
		})
	}
}
