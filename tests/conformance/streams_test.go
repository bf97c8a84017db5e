//go:build conformance

package conformance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cauce-stream/cauce/tests/conformance/internal/client"
	"github.com/cauce-stream/cauce/tests/conformance/internal/program"
	"github.com/cauce-stream/cauce/tests/conformance/internal/server"
)

const (
	streamsPartitions = 3
	streamsTimeout    = 2 * time.Minute
)

// countWords has Kafka Streams count words exactly once (exactly_once_v2) in two processes, one of which is killed in the middle
// and followed by a third: each word's counts are 1, 2, 3, … without a gap and without one that comes twice.
func countWords(t *testing.T, s *server.Server) {
	ctx, cancel := context.WithTimeout(t.Context(), streamsTimeout)
	defer cancel()
	w := &wordCount{T: t, server: s, franz: client.NewFranz(s.Bootstrap), in: "words-" + run, out: "counts-" + run, application: "app-" + run, words: map[string]int{}}
	for _, topic := range []string{w.in, w.out} {
		if err := w.franz.CreateTopic(ctx, topic, streamsPartitions); err != nil {
			t.Fatal(err)
		}
		if err := w.franz.AwaitLeaders(ctx, topic, streamsPartitions); err != nil {
			t.Fatal(err)
		}
	}
	first, second := w.start(ctx), w.start(ctx)
	w.write(ctx, 100)
	w.await(ctx, w.written())
	w.write(ctx, 300)
	w.await(ctx, w.written()/2)
	first.Kill()
	third := w.start(ctx)
	w.write(ctx, 100)
	w.await(ctx, w.written())
	for _, p := range []*program.Program{second, third} {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	w.final(ctx)
}

// wordCount is a word count with what was written so far.
type wordCount struct {
	*testing.T
	server               *server.Server
	franz                *client.Franz
	in, out, application string
	lines                int
	words                map[string]int // how often each was written
}

func (w *wordCount) start(ctx context.Context) *program.Program {
	w.Helper()
	p, err := program.Start("the word count", "java", append(javaProgram(w.T, "streams", "streams/WordCount.java", "-Xmx256m", "-XX:TieredStopAtLevel=1"),
		w.server.Bootstrap, w.application, w.in, w.out, w.TempDir())...)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(p.Kill)
	if _, err := p.Call(ctx, "run"); err != nil {
		w.Fatal(err)
	}
	return p
}

// write adds lines of words; word N comes with every Nth line.
func (w *wordCount) write(ctx context.Context, lines int) {
	w.Helper()
	var values []string
	for range lines {
		w.lines++
		var line []string
		for n := 1; n <= 10; n++ {
			if w.lines%n == 0 {
				line = append(line, fmt.Sprintf("every%d", n))
				w.words[line[len(line)-1]]++
			}
		}
		values = append(values, strings.Join(line, " "))
	}
	if err := w.franz.ProduceValues(ctx, w.in, streamsPartitions, values); err != nil {
		w.Fatal(err)
	}
}

func (w *wordCount) written() (words int) {
	for _, n := range w.words {
		words += n
	}
	return words
}

// await returns once so many words are counted.
func (w *wordCount) await(ctx context.Context, words int) {
	w.Helper()
	total := 0
	err := w.franz.EachCommitted(ctx, w.out, streamsPartitions, func(int32, string, string) bool {
		total++
		return total < words
	})
	if err != nil {
		w.Fatalf("%d of %d words are counted: %v", total, words, err)
	}
}

// final reads all counts: each follows the one before of its word, and there are as many as words were written.
func (w *wordCount) final(ctx context.Context) {
	w.Helper()
	const end = ""
	if err := w.franz.ProduceValues(ctx, w.out, streamsPartitions, slices.Repeat([]string{end}, streamsPartitions)); err != nil {
		w.Fatal(err)
	}
	counts, ended := map[string]int{}, 0
	err := w.franz.EachCommitted(ctx, w.out, streamsPartitions, func(_ int32, word, count string) bool {
		if count == end {
			ended++
			return ended < streamsPartitions
		}
		counts[word]++
		if count != strconv.Itoa(counts[word]) {
			w.Errorf("count %d of %s is %s", counts[word], word, count)
		}
		return true
	})
	if err != nil {
		w.Fatal(err)
	}
	if !maps.Equal(counts, w.words) {
		w.Errorf("counted %v, written %v", counts, w.words)
	}
}
