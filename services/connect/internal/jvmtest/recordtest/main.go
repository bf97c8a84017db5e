// Command recordtest asks a JVM worker of Apache Kafka Connect for what the tests of this service compare with: what it answers over
// REST, what it writes into its topics, and what its group's members tell each other.
//
// It wants an empty cluster at -bootstrap and one worker at -rest with the topics, the group and the exactly-once support of
// worker.properties; -second is the command that starts a second worker once the first has done its part. Files are written to -out.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/services/connect/internal/jvmtest"
)

const patience = 2 * time.Minute

type recorder struct {
	rest      string
	client    *kgo.Client
	exchanges []jvmtest.Exchange
}

func main() {
	bootstrap := flag.String("bootstrap", "127.0.0.1:19092", "host:port of a broker")
	rest := flag.String("rest", "http://127.0.0.1:8083", "URL of the worker")
	second := flag.String("second", "", "shell command that starts a second worker")
	out := flag.String("out", "testdata", "folder to write to")
	only := flag.Bool("validations", false, "write validations.json alone, for which any worker and cluster will do")
	flag.Parse()
	client, err := kgo.NewClient(kgo.SeedBrokers(*bootstrap))
	if err != nil {
		fail(err)
	}
	defer client.Close()
	r := &recorder{rest: *rest, client: client}
	write(*out, "validations.json", r.validations())
	if *only {
		return
	}
	r.script()
	write(*out, "rest.json", r.exchanges)
	if *second != "" {
		stop := r.start(*second)
		write(*out, "group.json", r.group())
		stop()
	}
	records := map[string][]jvmtest.Record{}
	for _, topic := range []string{jvmtest.ConfigTopic, jvmtest.OffsetTopic, jvmtest.StatusTopic} {
		records[topic] = r.topic(topic)
	}
	write(*out, "records.json", records)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "record:", err)
	os.Exit(1)
}

func write(folder, name string, what any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(what); err != nil {
		fail(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name), b.Bytes(), 0o644); err != nil {
		fail(err)
	}
}

// do sends a request and keeps it with its answer.
func (r *recorder) do(method, path, body string) jvmtest.Exchange {
	e := r.ask(method, path, body)
	fmt.Println(e.Status, method, path)
	r.exchanges = append(r.exchanges, e)
	return e
}

func (r *recorder) ask(method, path, body string) jvmtest.Exchange {
	req, err := http.NewRequest(method, r.rest+path, strings.NewReader(body))
	if err != nil {
		fail(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		fail(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		fail(err)
	}
	e := jvmtest.Exchange{Method: method, Path: path, Body: body, Status: resp.StatusCode, ContentType: resp.Header.Get("Content-Type"), Location: resp.Header.Get("Location")}
	var value any
	if err := json.Unmarshal(answer, &value); err != nil {
		e.Text = string(answer)
		return e
	}
	if e.Answer, err = json.Marshal(scrub(value)); err != nil {
		fail(err)
	}
	return e
}

// until asks for a path until its answer contains text.
func (r *recorder) until(path string, texts ...string) {
	for deadline := time.Now().Add(patience); ; time.Sleep(200 * time.Millisecond) {
		e := r.ask("GET", path, "")
		all := true
		for _, text := range texts {
			all = all && strings.Contains(string(e.Answer)+e.Text, text)
		}
		if all {
			return
		}
		if time.Now().After(deadline) {
			fail(fmt.Errorf("%s: no %q in %d %s%s", path, texts, e.Status, e.Answer, e.Text))
		}
	}
}

// settled asks again while the worker answers that it rebalances.
func (r *recorder) settled(method, path, body string) {
	for deadline := time.Now().Add(patience); ; time.Sleep(200 * time.Millisecond) {
		e := r.ask(method, path, body)
		if e.Status != http.StatusConflict || time.Now().After(deadline) {
			fmt.Println(e.Status, method, path)
			r.exchanges = append(r.exchanges, e)
			return
		}
	}
}

// start runs a command for a second worker until stop is called.
func (r *recorder) start(command string) (stop func()) {
	cmd := exec.Command("bash", "-c", "exec "+command)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		fail(err)
	}
	return func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	}
}

// group describes the workers' group once two members have been assigned their shares, which takes two rounds.
func (r *recorder) group() []jvmtest.Member {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{jvmtest.Group}
	var before string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(3 * time.Second) {
		resp, err := req.RequestWith(context.Background(), r.client)
		if err != nil {
			fail(err)
		}
		g := resp.Groups[0]
		var members []jvmtest.Member
		for _, m := range g.Members {
			members = append(members, jvmtest.Member{ID: m.MemberID, Protocol: g.Protocol, Metadata: m.ProtocolMetadata, Assignment: m.MemberAssignment})
		}
		now, err := json.Marshal(members)
		if err != nil {
			fail(err)
		}
		if g.State == "Stable" && len(members) == 2 && string(now) == before {
			return members
		}
		before = string(now)
	}
	fail(fmt.Errorf("no stable group of two workers"))
	return nil
}

// topic reads all records that were committed to a topic, in order of partition and offset: until none has come for a while.
func (r *recorder) topic(name string) []jvmtest.Record {
	c, err := kgo.NewClient(append(r.client.Opts(), kgo.ConsumeTopics(name), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		fail(err)
	}
	defer c.Close()
	records := []jvmtest.Record{}
	for more := true; more; {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		fetches := c.PollFetches(ctx)
		cancel()
		more = false
		fetches.EachRecord(func(k *kgo.Record) {
			more = true
			one := jvmtest.Record{Partition: k.Partition, Offset: k.Offset, Key: string(k.Key)}
			if k.Value != nil {
				value := traces.ReplaceAllString(string(k.Value), `"trace":"$1"`)
				one.Value = &value
			}
			records = append(records, one)
		})
	}
	slices.SortFunc(records, func(a, b jvmtest.Record) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	return records
}

// traces are stack traces, of which the exception's class is kept.
var traces = regexp.MustCompile(`"trace":"([^:"]+)[^"]*"`)

// scrub takes what Kafka says in its own words out of an answer: of documentation, messages and traces it keeps that they are there.
func scrub(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = scrub(v[i])
		}
	case map[string]any:
		for key, value := range v {
			if text, ok := value.(string); ok && text != "" && (key == "documentation" || key == "message" || key == "trace") {
				v[key] = "…"
			} else {
				v[key] = scrub(value)
			}
		}
		if errors, ok := v["errors"].([]any); ok {
			for i := range errors {
				errors[i] = "…"
			}
		}
	}
	return v
}
