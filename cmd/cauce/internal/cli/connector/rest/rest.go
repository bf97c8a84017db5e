// Package rest asks the workers of a Connect cluster by their REST interface: those of Cauce, or any other that is compatible with Kafka's.
package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/exit"
)

const (
	// answerMaxBytes bounds what is read of one answer.
	answerMaxBytes = 64 << 20
	// faultMaxBytes bounds what is shown of an answer that is no error of a worker's.
	faultMaxBytes = 300
	// againAfter is the pause before a request is sent again that a group which rebalances has refused.
	againAfter = 250 * time.Millisecond
)

// Client asks one of several workers. It is for one goroutine at a time.
type Client struct {
	addresses []*url.URL
	http      *http.Client
}

// New returns a client of the workers at URLs, http://host:port each.
func New(addresses []string) (*Client, error) {
	c := &Client{http: &http.Client{}}
	for _, address := range addresses {
		u, err := url.Parse(strings.TrimSpace(address))
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, exit.Usagef("--connect %s: http://HOST:PORT or https://HOST:PORT is wanted", address)
		}
		c.addresses = append(c.addresses, u)
	}
	if len(c.addresses) == 0 {
		return nil, exit.Usagef("--connect: no address given")
	}
	return c, nil
}

// Fault is an error that a worker has answered with.
type Fault struct {
	Status  int
	Message string
}

func (f *Fault) Error() string { return f.Message }

// Is says whether err is a fault that was answered with a status.
func Is(err error, status int) bool {
	f, ok := errors.AsType[*Fault](err)
	return ok && f.Status == status
}

// Call sends a request with a body, if it is not nil, and decodes the answer into one, if that is not nil. While the group of workers rebalances,
// or a worker is about to join it, the request is sent again, until ctx ends.
func (c *Client) Call(ctx context.Context, method, path string, body, into any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	for {
		err := c.anywhere(ctx, method, path, text, into)
		if !again(err) {
			return withCode(err)
		}
		timer := time.NewTimer(againAfter)
		select {
		case <-ctx.Done():
			timer.Stop()
			return exit.With(exit.Timeout, err)
		case <-timer.C:
		}
	}
}

// again says whether a fault passes: what exists already goes on to. While their group rebalances Kafka's workers answer some requests with 500.
func again(err error) bool {
	return Is(err, http.StatusServiceUnavailable) || Is(err, http.StatusConflict) && !strings.Contains(err.Error(), "already exists") ||
		Is(err, http.StatusInternalServerError) && strings.Contains(err.Error(), "rebalance")
}

func withCode(err error) error {
	f, ok := errors.AsType[*Fault](err)
	if !ok {
		return err
	}
	switch f.Status {
	case http.StatusNotFound:
		return exit.With(exit.NotFound, err)
	case http.StatusConflict:
		return exit.With(exit.Exists, err)
	case http.StatusUnauthorized, http.StatusForbidden:
		return exit.With(exit.Denied, err)
	}
	return err
}

// anywhere asks the first worker that there is.
func (c *Client) anywhere(ctx context.Context, method, path string, body []byte, into any) error {
	var unreachable []error
	for i, address := range c.addresses {
		err := c.ask(ctx, address, method, path, body, into)
		var op *net.OpError
		if !errors.As(err, &op) || op.Op != "dial" || ctx.Err() != nil {
			// The others need not be asked next time.
			c.addresses[0], c.addresses[i] = c.addresses[i], c.addresses[0]
			return err
		}
		unreachable = append(unreachable, fmt.Errorf("nothing answers at --connect %s: %w", address.Redacted(), op.Err))
	}
	return exit.With(exit.Unreachable, errors.Join(unreachable...))
}

func (c *Client) ask(ctx context.Context, address *url.URL, method, path string, body []byte, into any) error {
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(address.String(), "/")+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "application/json")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, answerMaxBytes+1))
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", address.Redacted(), err)
	case len(answer) > answerMaxBytes:
		return fmt.Errorf("%s: the answer is longer than %d bytes", address.Redacted(), answerMaxBytes)
	case response.StatusCode >= 300:
		return faultOf(address, response, answer)
	case into == nil || len(answer) == 0:
		return nil
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("%s answers %s and not as a Connect worker: %w", address.Redacted(), response.Status, err)
	}
	return nil
}

func faultOf(address *url.URL, response *http.Response, answer []byte) error {
	var body struct{ Message string }
	if err := json.Unmarshal(answer, &body); err == nil && body.Message != "" {
		return &Fault{response.StatusCode, body.Message}
	}
	return &Fault{response.StatusCode, fmt.Sprintf("%s answers %s: %s", address.Redacted(), response.Status, bytes.TrimSpace(answer[:min(len(answer), faultMaxBytes)]))}
}
