package bus

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestPresence tells a process that has ended from one that does not answer, where the server is in the asker's process, and where it is not.
func TestPresence(t *testing.T) {
	s := start(t, ServerConfig{Name: "s", Host: "127.0.0.1", Port: -1})
	t.Run("inside", func(t *testing.T) { testPresence(t, s, attach(t, s, Deps{})) })
	t.Run("outside", func(t *testing.T) { testPresence(t, s, dialURL(t, Config{URLs: []string{s.URL()}})) })
}

func testPresence(t *testing.T, s *Server, asker *Conn) {
	ask := func(name string) (bool, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		return asker.Present(ctx, name)
	}
	// A question that is on its way to a connection while that ends is lost with it, and the server hears of the end a moment later.
	expect := func(want bool) {
		t.Helper()
		until := time.Now().Add(10 * time.Second)
		got, err := ask("n1")
		for (err != nil || got != want) && time.Now().Before(until) {
			got, err = ask("n1")
		}
		if err != nil || got != want {
			t.Errorf("present: %v, %v; want %v", got, err, want)
		}
	}
	expect(false)
	first := dialURL(t, Config{URLs: []string{s.URL()}})
	if _, err := first.Announce("n1"); err != nil {
		t.Fatal(err)
	}
	if err := first.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect(true)
	if got, err := ask("n2"); err != nil || got {
		t.Errorf("another name is present: %v, %v", got, err)
	}
	first.Close()
	expect(false)

	// One that is connected and does not answer has not ended.
	stopped := dialURL(t, Config{URLs: []string{s.URL()}})
	release := make(chan struct{})
	sub, err := stopped.Follow(presencePrefix+"n1", func(Update) { <-release })
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	defer close(release)
	if err := stopped.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := ask("n1"); !got && !errors.Is(err, ErrTimeout) {
		t.Errorf("a process that does not answer: %v, %v", got, err)
	}
}
