package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/data"
	"github.com/cauce-stream/cauce/libs/plugin/kit"
)

func TestEachRecordIsARequest(t *testing.T) {
	server := listen(t, nil)
	task := sink(t, map[string]string{"http.url": server.URL + "/in/${topic}?k=${key}", "headers": "X-One: 1|X-Two:a:b", "request.method": "put"}, false)
	all := records(3, 17, "a", "b c/d&e")
	all[1].Headers = []data.Header{{Name: "traceparent", Value: text("00-1-2-01")}, {Name: "other", Value: text("x")}}
	all[1].Value = data.Value{V: map[any]any{"n": int64(1)}}
	if _, err := put(t, task, all); err != nil {
		t.Fatal(err)
	}
	got := server.all()
	if len(got) != 2 {
		t.Fatalf("%d requests", len(got))
	}
	first, second := got[0], got[1]
	if first.method != "PUT" || first.path != "/in/orders?k=a" || first.body != "a" || second.path != "/in/orders?k=b+c%2Fd%26e" || second.body != `{"n":1}` {
		t.Errorf("%+v\n%+v", first, second)
	}
	for name, want := range map[string]string{"X-One": "1", "X-Two": "a:b", "Content-Type": "application/json", "Idempotency-Key": "orders-3-17", "Traceparent": "", "Other": ""} {
		if first.header.Get(name) != want {
			t.Errorf("header %s is %q, want %q", name, first.header.Get(name), want)
		}
	}
	if second.header.Get("Traceparent") != "00-1-2-01" || second.header.Get("Idempotency-Key") != "orders-3-18" || second.header.Get("Other") != "" {
		t.Errorf("headers %v", second.header)
	}
}

func TestBatches(t *testing.T) {
	tests := []struct {
		name   string
		config map[string]string
		want   []string
	}{
		{"by count", map[string]string{"batch.max.size": "2"}, []string{"[a0,a1]", "[a2]", "[b0]"}},
		{"all", map[string]string{"batch.max.size": "10"}, []string{"[a0,a1,a2]", "[b0]"}},
		{"by bytes", map[string]string{"batch.max.size": "10", "batch.max.bytes": "6"}, []string{"[a0,a1]", "[a2]", "[b0]"}},
		{"larger than the bytes", map[string]string{"batch.max.size": "10", "batch.max.bytes": "1"}, []string{"[a0]", "[a1]", "[a2]", "[b0]"}},
		{"lines", map[string]string{"batch.max.size": "10", "batch.prefix": "", "batch.suffix": `\n`, "batch.separator": "\n"}, []string{"a0\na1\na2\n", "b0\n"}},
		{"by URL", map[string]string{"batch.max.size": "10", "http.url": "/${key}"}, []string{"[a0]", "[a1]", "[a2]", "[b0]"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server := listen(t, nil)
			test.config["http.url"] = server.URL + test.config["http.url"]
			task := sink(t, test.config, false)
			// The partitions come mixed.
			a, b := records(0, 0, "a0", "a1", "a2"), records(1, 0, "b0")
			if _, err := put(t, task, []plugin.SinkRecord{a[0], b[0], a[1], a[2]}); err != nil {
				t.Fatal(err)
			}
			wantTexts(t, server.taken(), test.want)
		})
	}
}

func TestTheNameOfABatch(t *testing.T) {
	server := listen(t, nil)
	if _, err := put(t, sink(t, map[string]string{"http.url": server.URL, "batch.max.size": "3"}, false), records(2, 5, "a", "b", "c", "d")); err != nil {
		t.Fatal(err)
	}
	got := server.all()
	if len(got) != 2 || got[0].header.Get("Idempotency-Key") != "orders-2-5-7" || got[1].header.Get("Idempotency-Key") != "orders-2-8" {
		t.Errorf("%+v", got)
	}
}

// TestFailuresInTheMiddle has requests fail in every way: all records arrive, in order, and only what has failed is sent again.
func TestFailuresInTheMiddle(t *testing.T) {
	for name, fail := range map[string]func(w http.ResponseWriter, r *http.Request){
		"500": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"429": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
		},
		"reset": func(w http.ResponseWriter, _ *http.Request) { cutOff(w) },
		"late":  func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	} {
		t.Run(name, func(t *testing.T) {
			var count atomic.Int64
			server := listen(t, func(w http.ResponseWriter, r *http.Request, body string) {
				if n := count.Add(1); n == 3 || n == 4 {
					fail(w, r)
				}
			})
			timeout := "30000"
			if name == "late" {
				timeout = "100"
			}
			task := sink(t, map[string]string{"http.url": server.URL, "http.request.timeout.ms": timeout, "max.retries": "2"}, false)
			all := records(0, 0, numbered(6)...)
			if _, err := put(t, task, all); err != nil {
				t.Fatal(err)
			}
			if got := count.Load(); got != 8 {
				t.Errorf("%d requests", got)
			}
			var order []string
			for _, one := range server.taken() {
				if len(order) == 0 || order[len(order)-1] != one { // of "late" and "reset" the server does not know that they failed
					order = append(order, one)
				}
			}
			wantTexts(t, order, numbered(6))
		})
	}
}

func TestRetriesEnd(t *testing.T) {
	var count atomic.Int64
	server := listen(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		count.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, "under\nmaintenance")
	})
	_, err := put(t, sink(t, map[string]string{"http.url": server.URL, "max.retries": "3"}, true), records(0, 4, "a"))
	if err == nil || !strings.Contains(err.Error(), "after 4 tries: sending orders-0-4: 503 Service Unavailable: under maintenance") || count.Load() != 4 {
		t.Errorf("%v after %d requests", err, count.Load())
	}
}

func TestTheServerSaysWhenToTryAgain(t *testing.T) {
	server := listen(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		w.Header().Set("Retry-After", "40")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	task := sink(t, map[string]string{"http.url": server.URL}, false)
	for range 2 { // asked too early, it sends nothing
		w, err := task.Put(t.Context(), records(0, 0, "a"))
		if err == nil || w.NextPut < 30*time.Second || w.NextPut > 40*time.Second {
			t.Errorf("again after %v: %v", w.NextPut, err)
		}
	}
	if n := len(server.all()); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// TestPoison finds the records of a batch that are refused, with or without a place for them.
func TestPoison(t *testing.T) {
	refuse := func(w http.ResponseWriter, _ *http.Request, body string) {
		if strings.Contains(body, "bad") {
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(w, "no such thing")
		}
	}
	texts := []string{"0", "1", "bad-2", "3", "4", "5", "bad-6", "7"}
	for _, size := range []string{"1", "3", "8"} {
		server := listen(t, refuse)
		task := sink(t, map[string]string{"http.url": server.URL, "batch.max.size": size, "batch.prefix": "", "batch.suffix": ""}, true)
		errant, err := put(t, task, records(0, 0, texts...))
		if err != nil || len(errant) != 2 || errant[0].Offset != 2 || errant[1].Offset != 6 || !strings.Contains(errant[0].Fault, "422 Unprocessable Entity: no such thing") {
			t.Errorf("batches of %s: %+v, %v", size, errant, err)
		}
		wantTexts(t, strings.Split(strings.Join(server.taken(), ","), ","), []string{"0", "1", "3", "4", "5", "7"})

		server = listen(t, refuse)
		task = sink(t, map[string]string{"http.url": server.URL, "batch.max.size": size, "batch.prefix": "", "batch.suffix": ""}, false)
		_, err = put(t, task, records(0, 0, texts...))
		if err == nil || !strings.Contains(err.Error(), "sending: record orders-0@2: 422") {
			t.Errorf("batches of %s: %v", size, err)
		}
		wantTexts(t, strings.Split(strings.Join(server.taken(), ","), ","), []string{"0", "1"})
	}
}

func TestWhatIsNoFaultOfTheRecord(t *testing.T) {
	for status, want := range map[int]string{401: "401 Unauthorized", 302: "it sends elsewhere", 407: "407", 304: "304"} {
		server := listen(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
			w.Header().Set("Location", "/login")
			w.WriteHeader(status)
		})
		errant, err := put(t, sink(t, map[string]string{"http.url": server.URL}, true), records(0, 0, "a"))
		if err == nil || !strings.Contains(err.Error(), want) || len(errant) > 0 || len(server.all()) != 1 {
			t.Errorf("%d: %v, %v, %d requests", status, errant, err, len(server.all()))
		}
	}
}

func TestRecordsWithoutAValue(t *testing.T) {
	for nulls, want := range map[string]string{"ignore": "POST a,POST c", "delete": "POST a,DELETE ,POST c", "fail": "POST a,POST c"} {
		server := listen(t, nil)
		all := records(0, 0, "a", "b", "c")
		all[1].Value = data.Value{}
		errant, err := put(t, sink(t, map[string]string{"http.url": server.URL + "/${key}", "behavior.on.null.values": nulls}, true), all)
		var got []string
		for _, r := range server.all() {
			got = append(got, r.method+" "+r.body)
		}
		if err != nil || strings.Join(got, ",") != want || (len(errant) == 1) != (nulls == "fail") {
			t.Errorf("%s: %v, %v, %v", nulls, got, errant, err)
		}
	}
}

func TestKeysThatNoPathCanHave(t *testing.T) {
	server := listen(t, nil)
	all := records(0, 0, "", "..", ".", "../x", "a")
	all[4].Key = data.Value{}
	errant, err := put(t, sink(t, map[string]string{"http.url": server.URL + "/${key}/x"}, true), all)
	if err != nil || len(errant) != 4 || !strings.Contains(errant[3].Fault, "no key") {
		t.Errorf("%+v, %v", errant, err)
	}
	if got := server.all(); len(got) != 1 || got[0].path != "/..%2Fx/x" {
		t.Errorf("%+v", got)
	}
}

func TestConfigurationsOfTheSink(t *testing.T) {
	base := "http://localhost/x"
	tests := []struct {
		config map[string]string
		key    string
		want   string
	}{
		{nil, "http.url", "required"},
		{map[string]string{"http.url": base}, "", ""},
		{map[string]string{"http.api.url": base}, "", ""},
		{map[string]string{"http.url": base, "http.api.url": base}, "http.api.url", "means the same"},
		{map[string]string{"http.url": "ftp://x"}, "http.url", "begin with http://"},
		{map[string]string{"http.url": "http://user:secret@x"}, "http.url", "keys of their own"},
		{map[string]string{"http.url": "http://${topic}/x"}, "http.url", "not in the host"},
		{map[string]string{"http.url": base + "/${id}"}, "http.url", "no placeholder"},
		{map[string]string{"http.url": base + "#x"}, "http.url", "fragment"},
		{map[string]string{"http.url": base, "headers": "oops"}, "headers", "no colon"},
		{map[string]string{"http.url": base, "headers": "a b: c"}, "headers", "no name"},
		{map[string]string{"http.url": base, "headers": "a: secret\x01"}, "headers", "header a has"},
		{map[string]string{"http.url": base, "retry.on.status.codes": "5xx,600"}, "retry.on.status.codes", `"600"`},
		{map[string]string{"http.url": base, "behavior.on.null.values": "delete"}, "behavior.on.null.values", "${key}"},
		{map[string]string{"http.url": base, "auth.type": "basic", "connection.user": "u"}, "connection.password", "needs it"},
		{map[string]string{"http.url": base, "auth.type": "Bearer"}, "bearer.token", "needs it"},
		{map[string]string{"http.url": base, "auth.type": "oauth2", "oauth2.token.url": "x", "oauth2.client.id": "i", "oauth2.client.secret": "s"}, "oauth2.token.url", "http://"},
		{map[string]string{"http.url": base, "tls.cert.file": "x"}, "tls.ca.file", "belong together"},
		{map[string]string{"http.url": base, "tls.ca.file": "/none"}, "tls.ca.file", "no such file"},
	}
	for _, test := range tests {
		faults := faultsOf(t, Sink{}, test.config)
		if test.key == "" && len(faults) > 0 || test.key != "" && !strings.Contains(faults[test.key], test.want) {
			t.Errorf("%v: %v", test.config, faults)
		}
		for _, fault := range faults {
			if strings.Contains(fault, "secret") {
				t.Errorf("%v: a secret is shown: %s", test.config, fault)
			}
		}
	}
	if !hidden(t, Sink{}, map[string]string{"http.url": base}, "batch.prefix") || hidden(t, Sink{}, map[string]string{"http.url": base, "batch.max.size": "2"}, "batch.prefix") {
		t.Error("the prefix of batches is shown where there are none, or not where there are some")
	}
}

func TestConformanceOfTheSink(t *testing.T) {
	server := listen(t, nil)
	for _, result := range kit.CheckSink(t.Context(), serve(t, Sink{}), kit.Case{Config: map[string]string{"http.url": server.URL + "/${topic}", "batch.max.size": "4"}}) {
		if result.Fault != nil {
			t.Errorf("%s: %v", result.Name, result.Fault)
		}
	}
}

func BenchmarkSink(b *testing.B) {
	for _, size := range []string{"1", "500"} {
		b.Run("batches of "+size, func(b *testing.B) {
			server := listen(b, nil)
			task := sink(b, map[string]string{"http.url": server.URL, "batch.max.size": size}, false)
			all := records(0, 0, numbered(500)...)
			for i := range all {
				all[i].Value = text(strings.Repeat("x", 100))
			}
			b.ResetTimer()
			for range b.N {
				if _, err := put(b, task, all); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*len(all))/b.Elapsed().Seconds(), "records/s")
		})
	}
}
