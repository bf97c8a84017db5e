package process

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
)

// TestHealthcheckAsksTheRunningProgram runs a program on all addresses and asks it with the same flags, before and after
// it is ready.
func TestHealthcheckAsksTheRunningProgram(t *testing.T) {
	var ready error
	check := func(port string) (int, string) {
		var out bytes.Buffer
		code := Execute("cauce-test", "A test.", []string{"healthcheck", "--admin", "0.0.0.0:" + port}, &out, &out, nil)
		return code, out.String()
	}
	err := Serve(t.Context(), "cauce-test", values(t, map[string]string{"admin.listener": "0.0.0.0:0"}), func(_ context.Context, env Env) error {
		_, port, err := net.SplitHostPort(env.Admin.Addr())
		if err != nil {
			return err
		}
		env.Telemetry.Ready("log", func() error { return ready })
		ready = errors.New("still recovering")
		if code, text := check(port); code != ExitFailure || !strings.Contains(text, "not ready: log: still recovering") {
			t.Errorf("before it is ready: %d %s", code, text)
		}
		ready = nil
		if code, text := check(port); code != ExitOK {
			t.Errorf("once it is ready: %d %s", code, text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
