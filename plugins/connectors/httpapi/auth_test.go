package httpapi

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

func TestWhomRequestsAreFrom(t *testing.T) {
	tests := []struct {
		config       map[string]string
		header, want string
	}{
		{map[string]string{"auth.type": "none"}, "Authorization", ""},
		{map[string]string{"auth.type": "BASIC", "connection.user": "ana", "connection.password": "s:1"}, "Authorization", "Basic YW5hOnM6MQ=="},
		{map[string]string{"auth.type": "bearer", "bearer.token": "t"}, "Authorization", "Bearer t"},
		{map[string]string{"auth.type": "api_key", "api.key.value": "k"}, "X-Api-Key", "k"},
		{map[string]string{"auth.type": "api_key", "api.key.name": "Token", "api.key.value": "k"}, "Token", "k"},
	}
	for _, test := range tests {
		server := listen(t, nil)
		test.config["http.url"] = server.URL
		if _, err := put(t, sink(t, test.config, false), records(0, 0, "a")); err != nil {
			t.Fatal(err)
		}
		if got := server.all()[0].header.Get(test.header); got != test.want {
			t.Errorf("%v: %s is %q", test.config, test.header, got)
		}
	}
}

// TestTokens has a server that takes each token twice, and a token endpoint.
func TestTokens(t *testing.T) {
	var given, used atomic.Int64
	tokens := listen(t, func(w http.ResponseWriter, r *http.Request, body string) {
		user, password, _ := r.BasicAuth()
		if user != "id" || password != "se%2Fcret" || body != "grant_type=client_credentials&scope=write" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		used.Store(0)
		fmt.Fprint(w, object("access_token", fmt.Sprint("token-", given.Add(1)), "expires_in", 3600))
	})
	server := listen(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		if used.Add(1) > 2 || r.Header.Get("Authorization") != fmt.Sprint("Bearer token-", given.Load()) {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	config := map[string]string{"http.url": server.URL, "auth.type": "oauth2", "oauth2.token.url": tokens.URL, "oauth2.client.id": "id", "oauth2.client.secret": "se/cret", "oauth2.client.scope": "write"}
	if _, err := put(t, sink(t, config, false), records(0, 0, numbered(5)...)); err != nil {
		t.Fatal(err)
	}
	wantTexts(t, server.taken(), numbered(5))
	if given.Load() != 3 {
		t.Errorf("%d tokens", given.Load())
	}
	config["oauth2.client.secret"], config["max.retries"] = "wrong", "0"
	if _, err := put(t, sink(t, config, false), records(0, 0, "a")); err == nil || !strings.Contains(err.Error(), "the token endpoint answers 400") {
		t.Error(err)
	}
}

func TestServersWithACertificate(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := put(t, sink(t, map[string]string{"http.url": server.URL, "tls.ca.file": ca}, false), records(0, 0, "a")); err != nil {
		t.Error(err)
	}
	if _, err := put(t, sink(t, map[string]string{"http.url": server.URL, "max.retries": "0"}, false), records(0, 0, "a")); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("of an authority that nobody trusts: %v", err)
	}
}
