package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/libs/plugin/kit"
	"github.com/cauce-stream/cauce/libs/plugin/remote"
)

// source starts a task at an offset, with quick retries and turns.
func source(t testing.TB, config map[string]string, offset string) *remote.SourceTask {
	t.Helper()
	all := map[string]string{"topic": "items", "retry.backoff.ms": "1", "retry.backoff.max.ms": "5", "poll.interval.ms": "1"}
	maps.Copy(all, config)
	task, err := serve(t, Source{}).StartSource(t.Context(), remote.Task{Config: all,
		ReadOffsets: func(_ context.Context, partitions []json.RawMessage) ([]json.RawMessage, error) {
			if want := object("url", config["http.url"]); len(partitions) != 1 || string(partitions[0]) != want {
				return nil, fmt.Errorf("asked for %s", partitions)
			}
			return []json.RawMessage{json.RawMessage(offset)}, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := task.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return task
}

// got is a record with the offset after it.
type got struct {
	data.Record
	offset string
}

// read polls until there are so many records.
func read(t testing.TB, task *remote.SourceTask, count int) []got {
	t.Helper()
	var all []got
	for len(all) < count {
		batch, err := task.Poll(t.Context())
		var f *remote.Fault
		if errors.As(err, &f) && f.Retriable {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		for i, r := range batch.Records {
			if err := r.Value.Validate(); err != nil || r.Topic != "items" || r.TimestampMs <= 0 {
				t.Errorf("record %+v: %v", r, err)
			}
			_, offset := batch.Position(i)
			all = append(all, got{r, string(offset)})
		}
	}
	return all
}

func values(all []got) []string {
	var texts []string
	for _, one := range all {
		texts = append(texts, fmt.Sprint(one.Value.V))
	}
	return texts
}

// wantResumed finds that a task that starts after any of the records goes on with the next one, and reads them all.
func wantResumed(t *testing.T, config map[string]string, count int) {
	t.Helper()
	all := read(t, source(t, config, ""), count)
	for i := range count - 1 {
		rest := read(t, source(t, config, all[i].offset), count-i-1)
		if want := values(all[i+1 : count]); !slices.Equal(values(rest[:len(want)]), want) {
			t.Errorf("after record %d, %s: %q, want %q", i, all[i].offset, values(rest), want)
		}
	}
}

// shop answers with the items after an offset, at most limit.
func shop(t testing.TB, count, limit int) *script {
	return listen(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		since, _ := strconv.Atoi(r.URL.Query().Get("since"))
		var items []string
		for id := since + 1; id <= min(since+limit, count); id++ {
			items = append(items, fmt.Sprintf(`{"id":%d,"name":"n%d"}`, id, id))
		}
		fmt.Fprintf(w, `{"data":{"items":[%s]},"last":%d}`, strings.Join(items, ","), since+len(items))
	})
}

func TestOffsetsOfRecords(t *testing.T) {
	server := shop(t, 7, 3)
	for _, config := range []map[string]string{
		{"http.url": server.URL + "/?since=${offset}"}, {"http.url": server.URL, "offset.parameter": "since"},
		{"http.url": server.URL + "/x?a=b", "offset.parameter": "since", "batch.size": "2"},
	} {
		maps.Copy(config, map[string]string{"records.path": "/data/items", "offset.pointer": "/id", "key.pointer": "/name", "value.format": "string"})
		wantResumed(t, config, 7)
	}
	config := map[string]string{"http.url": server.URL, "offset.parameter": "since", "records.path": "/data/items", "offset.pointer": "/id", "key.pointer": "/name"}
	all := read(t, source(t, config, ""), 7)
	want := data.Value{V: map[any]any{"id": int64(2), "name": "n2"}}
	if !all[1].Value.Equal(want) || all[1].Key.V != "n2" || all[1].offset != `{"offset":"","next":"2","done":2}` || all[2].offset != `{"offset":"3"}` {
		t.Errorf("%+v", all[:3])
	}
}

func TestTheSameOffsetForSeveral(t *testing.T) {
	server := listen(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		if r.URL.Query().Get("after") == "" {
			fmt.Fprint(w, `[{"at":"x","n":1},{"at":"x","n":2},{"at":"x","n":3},{"at":"y","n":4}]`)
		} else if r.URL.Query().Get("after") == "y" {
			fmt.Fprint(w, `[{"at":"z","n":5}]`)
		}
	})
	wantResumed(t, map[string]string{"http.url": server.URL, "offset.parameter": "after", "offset.pointer": "/at", "value.format": "string"}, 5)
}

func TestCursors(t *testing.T) {
	server := shop(t, 8, 3)
	wantResumed(t, map[string]string{"http.url": server.URL, "offset.parameter": "since", "cursor.pointer": "/last", "records.path": "/data/items", "value.format": "string"}, 8)
}

// TestPages has turns of three pages, and a second turn.
func TestPages(t *testing.T) {
	page := func(r *http.Request) (items string, next int) {
		since, _ := strconv.Atoi(r.URL.Query().Get("since"))
		n, _ := strconv.Atoi(r.URL.Query().Get("page"))
		if since >= 9 {
			return "", 0
		}
		id := since + 2*n + 1
		if next = n + 1; next > 2 {
			next = 0
		}
		if n == 1 && since == 0 {
			return "", next // a page without records
		}
		return fmt.Sprintf(`{"id":%d},{"id":%d}`, id, id+1), next
	}
	byLink := listen(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		items, next := page(r)
		if next > 0 {
			w.Header().Add("Link", fmt.Sprintf(`<http://elsewhere/>; rel="prev", <?since=%s&page=%d>; title="a, \"b\""; rel="next last"`, r.URL.Query().Get("since"), next))
		}
		fmt.Fprintf(w, "[%s]", items)
	})
	byPointer := listen(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		items, next := page(r)
		to := "null"
		if next > 0 {
			to = fmt.Sprintf(`"/?since=%s&page=%d"`, r.URL.Query().Get("since"), next)
		}
		fmt.Fprintf(w, `{"items":[%s],"next":%s}`, items, to)
	})
	byParameter := listen(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		items, next := page(r)
		fmt.Fprintf(w, `{"items":[%s]`, items)
		if next > 0 {
			fmt.Fprintf(w, `,"next":%d`, next)
		}
		fmt.Fprint(w, "}")
	})
	for name, config := range map[string]map[string]string{
		"link":      {"http.url": byLink.URL, "pagination": "link"},
		"pointer":   {"http.url": byPointer.URL, "pagination": "pointer", "next.page.pointer": "/next", "records.path": "/items"},
		"parameter": {"http.url": byParameter.URL, "pagination": "pointer", "next.page.pointer": "/next", "next.page.parameter": "page", "records.path": "/items"},
	} {
		t.Run(name, func(t *testing.T) {
			maps.Copy(config, map[string]string{"offset.pointer": "/id", "offset.parameter": "since", "value.format": "string", "batch.size": "1"})
			wantResumed(t, config, 10)
			texts := values(read(t, source(t, config, ""), 10))
			wantTexts(t, texts, []string{`{"id":1}`, `{"id":2}`, `{"id":5}`, `{"id":6}`, `{"id":7}`, `{"id":8}`, `{"id":9}`, `{"id":10}`, `{"id":11}`, `{"id":12}`})
		})
	}
}

// TestWhatHasNotChanged has a list that changes once, and that says so.
func TestWhatHasNotChanged(t *testing.T) {
	for _, names := range [][2]string{{"Etag", "If-None-Match"}, {"Last-Modified", "If-Modified-Since"}} {
		var asked atomic.Int64
		server := listen(t, func(w http.ResponseWriter, r *http.Request, _ string) {
			version := "first"
			if asked.Add(1) > 4 {
				version = "second"
			}
			w.Header().Set(names[0], version)
			if r.Header.Get(names[1]) == version {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			fmt.Fprintf(w, `["%s",2]`, version)
		})
		config := map[string]string{"http.url": server.URL}
		all := read(t, source(t, config, ""), 4)
		wantTexts(t, values(all), []string{"first", "2", "second", "2"})
		// A restart knows what it has, whole or in part.
		wantTexts(t, values(read(t, source(t, config, all[2].offset), 1)), []string{"2"})
		asked.Store(0)
		wantTexts(t, values(read(t, source(t, config, all[1].offset), 2)), []string{"second", "2"})
		if names[0] == "Etag" { // what is half stored has changed since
			asked.Store(4)
			wantTexts(t, values(read(t, source(t, config, all[0].offset), 2)), []string{"second", "2"})
		}
	}
}

func TestAnAnswerThatChangedBeforeTheRestart(t *testing.T) {
	at := position{Offset: "0", Next: "3", Done: 3}
	of := func(offsets ...string) (records []entry) {
		for _, o := range offsets {
			records = append(records, entry{offset: o})
		}
		return records
	}
	for _, test := range []struct {
		records []entry
		want    int
	}{{of("1", "2", "3", "4"), 3}, {of("2", "3", "4"), 2}, {of("3"), 1}, {of("4", "5"), 0}, {of("1", "1", "2", "3", "4"), 4}, {nil, 0}} {
		if got := doneOf(at, test.records, "", true); got != test.want {
			t.Errorf("%v: %d, want %d", test.records, got, test.want)
		}
	}
	if got := doneOf(position{Done: 3}, of("", ""), "", false); got != 2 {
		t.Errorf("without offsets: %d", got)
	}
}

func TestFailuresOfTheServer(t *testing.T) {
	for name, fail := range map[string]func(w http.ResponseWriter, r *http.Request){
		"503":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"reset": func(w http.ResponseWriter, _ *http.Request) { cutOff(w) },
		"torn": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, `[{"id":1`)
		},
		"late": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int64
			server := listen(t, func(w http.ResponseWriter, r *http.Request, _ string) {
				if asked.Add(1)%3 != 0 {
					fail(w, r)
					return
				}
				since, _ := strconv.Atoi(r.URL.Query().Get("since"))
				fmt.Fprintf(w, `[{"id":%d}]`, since+1)
			})
			config := map[string]string{"http.url": server.URL, "offset.parameter": "since", "offset.pointer": "/id", "value.format": "string", "max.retries": "2", "http.request.timeout.ms": "5000"}
			if name == "late" {
				config["http.request.timeout.ms"] = "100"
			}
			wantTexts(t, values(read(t, source(t, config, ""), 3)), []string{`{"id":1}`, `{"id":2}`, `{"id":3}`})
		})
	}
}

// TestFaults has answers that no further request makes better.
func TestFaults(t *testing.T) {
	tests := []struct {
		config map[string]string
		status int
		body   string
		want   string
	}{
		{nil, 404, "no such list", "404 Not Found: no such list"},
		{nil, 200, "<html>", "not JSON"},
		{nil, 200, `[1] [2]`, "not JSON"},
		{nil, 200, `7`, "neither an array nor an object"},
		{nil, 200, `[1, 99999999999999999999]`, "record 1 of the answer: 99999999999999999999 does not fit 64 bits: value.format=string"},
		{map[string]string{"response.max.bytes": "10"}, 200, `["0123456789"]`, "more than 10 bytes, which is response.max.bytes"},
		{map[string]string{"records.path": "/items"}, 200, `{}`, "nothing at records.path"},
		{map[string]string{"offset.pointer": "/id", "offset.parameter": "o"}, 200, `[{"id":1},{}]`, "record 1 of the answer: offset.pointer: it has none"},
		{map[string]string{"offset.pointer": "/id", "offset.parameter": "o"}, 200, `[{"id":[1]}]`, "neither a text nor a number"},
		{map[string]string{"pagination": "pointer", "next.page.pointer": "/next"}, 200, `{"next":"http://elsewhere/"}`, "no credentials go there"},
		{map[string]string{"pagination": "pointer", "next.page.pointer": "/next"}, 200, `{"next":"/same"}`, "comes after itself"},
		{map[string]string{"max.retries": "0"}, 500, "", "after 1 tries"},
	}
	for _, test := range tests {
		server := listen(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
			w.WriteHeader(test.status)
			fmt.Fprint(w, test.body)
		})
		config := map[string]string{"http.url": server.URL}
		maps.Copy(config, test.config)
		task := source(t, config, "")
		var err error
		for range 3 { // what says that it comes after itself is there once
			if _, err = task.Poll(t.Context()); err != nil {
				break
			}
		}
		var f *remote.Fault
		if !errors.As(err, &f) || f.Retriable || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%d %s: %v, want %s", test.status, test.body, err, test.want)
		}
	}
}

func TestCredentialsStayOnTheHost(t *testing.T) {
	other := listen(t, nil)
	server := listen(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		switch r.URL.Path {
		case "/here":
			http.Redirect(w, r, "/there", http.StatusFound)
		case "/away":
			http.Redirect(w, r, other.URL, http.StatusFound)
		default:
			fmt.Fprintf(w, `["%s"]`, r.Header.Get("X-Api-Key"))
		}
	})
	config := map[string]string{"http.url": server.URL + "/here", "auth.type": "api_key", "api.key.value": "secret", "max.retries": "0"}
	wantTexts(t, values(read(t, source(t, config, ""), 1)), []string{"secret"})
	config["http.url"] = server.URL + "/away"
	if _, err := source(t, config, "").Poll(t.Context()); err == nil || !strings.Contains(err.Error(), "no credentials go there") || len(other.all()) > 0 {
		t.Errorf("%v, %v", err, other.all())
	}
}

func TestConfigurationsOfTheSource(t *testing.T) {
	tests := []struct {
		config    map[string]string
		key, want string
	}{
		{map[string]string{}, "", ""},
		{map[string]string{"http.url": "http://h/${key}"}, "http.url", "no placeholder"},
		{map[string]string{"records.path": "data"}, "records.path", "slash"},
		{map[string]string{"key.pointer": "/a~2"}, "key.pointer", "~"},
		{map[string]string{"offset.pointer": "/id"}, "http.url", "neither ${offset}"},
		{map[string]string{"http.url": "http://h/?o=${offset}"}, "http.url", "neither offset.pointer"},
		{map[string]string{"http.url": "http://h/?o=${offset}", "offset.pointer": "/id"}, "", ""},
		{map[string]string{"http.url": "http://h/?o=${offset}", "offset.pointer": "/id", "offset.parameter": "o"}, "offset.parameter", "too"},
		{map[string]string{"http.url": "http://h/${offset}", "offset.pointer": "/id"}, "offset.initial", "first turn"},
		{map[string]string{"http.url": "http://h/${offset}", "offset.pointer": "/id", "offset.initial": "0"}, "", ""},
		{map[string]string{"offset.pointer": "/id", "cursor.pointer": "/c", "offset.parameter": "o"}, "cursor.pointer", "too"},
		{map[string]string{"pagination": "pointer"}, "next.page.pointer", "needs it"},
		{map[string]string{"pagination": "pages"}, "pagination", "one of"},
	}
	for _, test := range tests {
		config := map[string]string{"topic": "t", "http.url": "http://h/"}
		maps.Copy(config, test.config)
		if faults := faultsOf(t, Source{}, config); test.key == "" && len(faults) > 0 || test.key != "" && !strings.Contains(faults[test.key], test.want) {
			t.Errorf("%v: %v", test.config, faults)
		}
	}
	if (Source{}).Guarantees(map[string]string{}).ExactlyOnce || !(Source{}).Guarantees(map[string]string{"cursor.pointer": "/c"}).ExactlyOnce {
		t.Error("what is promised without an offset, or with one, is wrong")
	}
}

func TestOffsetsThatUsersSet(t *testing.T) {
	for _, test := range []struct{ partition, offset, fault string }{
		{`{"url":"x"}`, `{"offset":"7"}`, ""},
		{`{"url":"x"}`, ``, ""},
		{`{"url":"x"}`, `{"offset":7}`, "offset"},
		{`{"url":"x"}`, `{"position":"7"}`, "offset"},
		{`{"url":"x"}`, `{}`, "offset"},
		{`{"url":"x"}`, `{"offset":"7","done":-1}`, "offset"},
		{`{"uri":"x"}`, `{"offset":"7"}`, "partition"},
	} {
		o := plugin.SourceOffset{Partition: json.RawMessage(test.partition)}
		if test.offset != "" {
			o.Offset = json.RawMessage(test.offset)
		}
		handled, err := Source{}.AlterOffsets(t.Context(), nil, []plugin.SourceOffset{o})
		if handled != (test.fault == "") || (err == nil) != handled || err != nil && !strings.HasPrefix(err.Error(), test.fault) {
			t.Errorf("%s %s: %t, %v", test.partition, test.offset, handled, err)
		}
	}
}

func TestConformanceOfTheSource(t *testing.T) {
	server := shop(t, 20, 6)
	config := map[string]string{"http.url": server.URL, "topic": "t", "offset.parameter": "since", "offset.pointer": "/id", "records.path": "/data/items", "poll.interval.ms": "1"}
	for _, result := range kit.CheckSource(t.Context(), serve(t, Source{}), kit.Case{Config: config}) {
		if result.Fault != nil {
			t.Errorf("%s: %v", result.Name, result.Fault)
		}
	}
}

func BenchmarkSource(b *testing.B) {
	items := make([]string, 1000)
	for i := range items {
		items[i] = fmt.Sprintf(`{"id":%d,"name":"%s","tags":["a","b"],"price":19.95}`, i, strings.Repeat("x", 50))
	}
	body := `{"items":[` + strings.Join(items, ",") + `]}`
	server := listen(b, func(w http.ResponseWriter, _ *http.Request, _ string) { fmt.Fprint(w, body) })
	for _, format := range []string{"json", "string"} {
		b.Run(format, func(b *testing.B) {
			task := source(b, map[string]string{"http.url": server.URL, "offset.parameter": "since", "offset.pointer": "/id", "key.pointer": "/id", "records.path": "/items", "value.format": format}, "")
			b.ResetTimer()
			for range b.N {
				read(b, task, len(items))
			}
			b.ReportMetric(float64(b.N*len(items))/b.Elapsed().Seconds(), "records/s")
		})
	}
}
