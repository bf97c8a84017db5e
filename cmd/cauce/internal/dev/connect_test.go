package dev

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestANodeOutlivesItsConnectWorker gives the worker a topic that it refuses, once somebody asks it.
func TestANodeOutlivesItsConnectWorker(t *testing.T) {
	c := start(t, values(t, t.TempDir(), "connect.enable", "true", "connect.listeners", "http://127.0.0.1:0"))
	c.createTopic("connect-configs", 2, map[string]*string{"cleanup.policy": kmsg.StringPtr("compact")})
	if code, text := c.readyz(); code != http.StatusOK {
		t.Fatalf("readyz before anybody asked the worker: %d %s", code, text)
	}
	r, err := http.Get(c.Connect)
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Body.Close()
	const why = "has 2 partitions"
	limit := time.After(startLimit)
	for code, text := c.readyz(); code != http.StatusServiceUnavailable || !strings.Contains(text, why); code, text = c.readyz() {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-limit:
			t.Fatalf("readyz: %d %s, want it to say that the topic %s", code, text, why)
		}
	}
	c.createTopic("orders", 1, nil)
	c.produce("orders", 3, func(i int) []byte { return []byte{byte(i)} })
	if seen := c.consume("orders", 3); len(seen) != 3 {
		t.Errorf("read %v", seen)
	}
	c.stop()
	if err := <-c.ended; err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("dev ended with %v", err)
	}
	c.ended = nil
}

// readyz is what the admin server answers.
func (c *cluster) readyz() (code int, text string) {
	c.t.Helper()
	r, err := http.Get("http://" + c.Admin + "/readyz")
	if err != nil {
		c.t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return r.StatusCode, string(body)
}
