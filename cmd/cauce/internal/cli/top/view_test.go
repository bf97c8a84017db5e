package top

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
)

var rewrite = flag.Bool("rewrite", false, "write what is drawn into testdata instead of comparing")

// looks are two looks at a cluster of two nodes, two seconds apart: orders:1 has a hot key, group slow falls behind, and clicks is made
// anew meanwhile.
func looks() (before, after *sample) {
	at := time.UnixMilli(1_700_000_000_000)
	look := func(n int64) *sample {
		s := &sample{
			at: at.Add(time.Duration(n) * 2 * time.Second), cluster: "c1", nodes: []node{{1, "a:9092"}, {2, "b:9092"}},
			partitions: map[place]partition{
				{"orders", 0}:             {leader: 1, replicas: []int32{1, 2}, inSync: 2, end: 100 + 20*n},
				{"orders", 1}:             {leader: 2, replicas: []int32{1, 2}, inSync: 1, start: 40, end: 1000 + 180*n},
				{"clicks", 0}:             {leader: 2, replicas: []int32{2}, inSync: 1, end: 7 - 5*n},
				{"lost", 0}:               {leader: -1, replicas: []int32{3}, inSync: 1, start: -1, end: -1},
				{"__consumer_offsets", 0}: {internal: true, leader: 1, replicas: []int32{1}, inSync: 1, end: 50 + 2*n},
			},
			groups: map[string]group{
				"slow": {"Stable", map[place]int64{{"orders", 0}: 100 + 20*n, {"orders", 1}: 900 + 30*n}},
				"well": {"Stable", map[place]int64{{"orders", 0}: 100 + 20*n}},
			},
		}
		if n == 1 {
			s.groups["new"] = group{"Empty", map[place]int64{{"orders", 0}: 0, {"lost", 0}: 3}}
		}
		return s
	}
	return look(0), look(1)
}

func TestView(t *testing.T) {
	v := viewOf(looks())
	draw := func(columns, lines int) string {
		var b strings.Builder
		if err := v.write(&b, columns, lines); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	var document strings.Builder
	if err := output.WriteJSON(&document, v); err != nil {
		t.Fatal(err)
	}
	for file, got := range map[string]string{"all.txt": draw(120, 0), "small.txt": draw(40, 15), "view.json": document.String()} {
		if *rewrite {
			if err := os.WriteFile("testdata/"+file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile("testdata/" + file); err != nil || got != string(want) {
			t.Errorf("%s (%v):\n%s", file, err, got)
		}
	}
}

// TestFitsTheScreen whatever there is of each kind.
func TestFitsTheScreen(t *testing.T) {
	for lines := 13; lines < 60; lines += 7 {
		for _, n := range []int{0, 1, 9, 500} {
			var v View
			for i := range n {
				v.Nodes, v.Groups, v.Topics = append(v.Nodes, Node{ID: int32(i)}), append(v.Groups, Group{Group: fmt.Sprint(i)}), append(v.Topics, Topic{Topic: strings.Repeat("t", 90)})
			}
			var b strings.Builder
			if err := v.write(&b, 50, lines); err != nil {
				t.Fatal(err)
			}
			for i, line := range strings.Split(b.String(), "\n") {
				if len([]rune(line)) > 50 || i > lines {
					t.Errorf("%d of each: line %d of %d has %d columns", n, i, lines, len([]rune(line)))
				}
			}
		}
	}
}
