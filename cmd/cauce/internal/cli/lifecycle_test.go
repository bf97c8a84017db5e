package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
)

// interrupt ends the context when it sees the text go by.
type interrupt struct {
	bytes.Buffer
	text string
	stop context.CancelFunc
}

func (i *interrupt) Write(p []byte) (int, error) {
	n, err := i.Buffer.Write(p)
	if strings.Contains(i.String(), i.text) {
		i.stop()
	}
	return n, err
}

func TestInterruptedFollowerIsDone(t *testing.T) {
	cluster := newCluster(t)
	mustRun(t, "topic", "create", "orders", "-p", "1", "-b", cluster)
	mustRun(t, "produce", "orders", "first", "-b", cluster)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out := &interrupt{text: "first\n", stop: stop}
	var errs bytes.Buffer
	code := Run(ctx, []string{"consume", "orders", "--follow", "--from", "beginning", "-b", cluster}, nil, out, &errs)
	if code != exit.OK || out.String() != "first\n" {
		t.Errorf("exit %d, printed %q and %q, want what came and exit 0", code, out.String(), errs.String())
	}
}

func TestInterruptedProducerDeliversWhatItRead(t *testing.T) {
	cluster := newCluster(t)
	mustRun(t, "topic", "create", "orders", "-p", "1", "-b", cluster)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	in, feed := io.Pipe()
	defer feed.Close() // lets go of the goroutine that reads
	go func() {
		io.WriteString(feed, "read\nbefore\n")
		// The scanner comes back for more only after it took both lines.
		io.WriteString(feed, "half a li")
		stop()
	}()
	var out, errs bytes.Buffer
	code := Run(ctx, []string{"produce", "orders", "-b", cluster}, in, &out, &errs)
	if code != exit.Interrupted {
		t.Errorf("exit %d, want %d: %s", code, exit.Interrupted, errs.String())
	}
	if got := mustRun(t, "consume", "orders", "-b", cluster); got != "read\nbefore\n" {
		t.Errorf("the topic holds %q, want the two lines that were read", got)
	}
}

func TestSilentServerTimesOut(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	_, errs, code := execute(t, "", "topic", "list", "--timeout", "100ms", "-b", listener.Addr().String())
	if code != exit.Unreachable || !strings.Contains(errs, listener.Addr().String()) {
		t.Errorf("exit %d: %q, want %d and the address", code, errs, exit.Unreachable)
	}
}

func TestBench(t *testing.T) {
	cluster := newCluster(t)
	var produced, consumed struct {
		Records int64
		Bytes   int64
		Latency *struct {
			From string
			P50  float64
			Max  float64
		} `json:"latency_ms"`
	}
	out := mustRun(t, "bench", "produce", "load", "--create", "2", "-n", "500", "--size", "100", "--rate", "5000", "-o", "json", "-b", cluster)
	if err := json.Unmarshal([]byte(out), &produced); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if produced.Records != 500 || produced.Bytes != 50_000 || produced.Latency == nil || produced.Latency.From != "due" || produced.Latency.Max < produced.Latency.P50 {
		t.Errorf("bench produce told %s", out)
	}
	out = mustRun(t, "bench", "consume", "load", "--latency", "-o", "json", "-b", cluster)
	if err := json.Unmarshal([]byte(out), &consumed); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if consumed.Records != 500 || consumed.Bytes != 50_000 || consumed.Latency == nil || consumed.Latency.P50 <= 0 {
		t.Errorf("bench consume told %s", out)
	}
	if _, errs, code := execute(t, "", "bench", "consume", "nope", "-b", cluster); code != exit.NotFound {
		t.Errorf("a missing topic: exit %d: %s", code, errs)
	}
}

func TestCompletionKnowsTopics(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "clicks", "orders", "orders-eu"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	out := mustRun(t, "__complete", "topic", "describe", "-b", cluster.ListenAddrs()[0], "ord")
	if !strings.HasPrefix(out, "orders\norders-eu\n:4\n") {
		t.Errorf("completed %q", out)
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if script := mustRun(t, "completion", shell); !strings.Contains(script, "cauce") {
			t.Errorf("no script for %s", shell)
		}
	}
}

func mustRun(t *testing.T, args ...string) string {
	t.Helper()
	out, errs, code := execute(t, "", args...)
	if code != exit.OK {
		t.Fatalf("cauce %s: exit %d: %s", strings.Join(args, " "), code, errs)
	}
	return out
}
