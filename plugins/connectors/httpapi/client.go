package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/plugins/connectors/internal/tlsfiles"
)

const (
	// maxRedirects bounds how often a source is sent elsewhere by one request.
	maxRedirects = 10
	// maxDrainedBytes is how much of an answer that nobody wants is read, so that its connection can be used again.
	maxDrainedBytes = 256 << 10
	idleTimeout     = 90 * time.Second
)

// client sends the requests of a task.
type client struct {
	http    *http.Client
	headers http.Header
	auth    authorizer
	timeout time.Duration
}

// answer is an answer that was read whole, or as far as was wanted.
type answer struct {
	status int
	header http.Header
	body   []byte
	url    *url.URL // that it came from in the end
}

// newClient returns a client whose end is close. follow says whether it goes where answers send it, on the same host.
func newClient(v configdef.Values, follow bool) (*client, error) {
	files, err := tlsfiles.Load(v)
	if err != nil {
		return nil, err
	}
	headers, err := parseHeaders(v)
	if err != nil {
		return nil, err
	}
	connect := v.Millis(connectTimeoutKey)
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: files, ForceAttemptHTTP2: true, IdleConnTimeout: idleTimeout,
		DialContext: (&net.Dialer{Timeout: connect}).DialContext, TLSHandshakeTimeout: connect,
	}
	c := &client{http: &http.Client{Transport: transport, CheckRedirect: refuseRedirect}, headers: headers, timeout: v.Millis(requestTimeoutKey)}
	if follow {
		c.http.CheckRedirect = followOnHost
	}
	c.auth = newAuthorizer(v, &http.Client{Transport: transport, CheckRedirect: refuseRedirect})
	return c, nil
}

// refuseRedirect leaves the answer as it is: after some redirects what was to be sent would not be sent again.
func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// followOnHost keeps credentials from other hosts.
func followOnHost(r *http.Request, via []*http.Request) error {
	switch first := via[0].URL; {
	case len(via) > maxRedirects:
		return fmt.Errorf("it was sent elsewhere %d times", maxRedirects)
	case !sameHost(r.URL, first):
		return fmt.Errorf("it was sent from %s to %s, and no credentials go there", first.Host, r.URL.Host)
	}
	return nil
}

func sameHost(a, b *url.URL) bool { return a.Scheme == b.Scheme && a.Host == b.Host }

// do sends a request and reads up to maxBytes of its answer, one more if there are more. Once in a while it sends it twice: when
// a token that was kept is no longer taken.
func (c *client) do(ctx context.Context, method, to string, header http.Header, body []byte, maxBytes int64) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, method, to, bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		for name, values := range c.headers {
			request.Header[name] = values
		}
		for name, values := range header {
			request.Header[name] = values
		}
		kept, err := c.auth.authorize(ctx, request)
		if err != nil {
			return nil, err
		}
		a, err := c.send(request, maxBytes)
		if err == nil && a.status == http.StatusUnauthorized && kept {
			c.auth.forget()
			continue
		}
		return a, err
	}
}

func (c *client) send(request *http.Request, maxBytes int64) (*answer, error) {
	response, err := c.http.Do(request)
	if err != nil {
		return nil, withoutURL(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	_, _ = io.CopyN(io.Discard, response.Body, maxDrainedBytes) // what it cannot read it need not know
	return &answer{response.StatusCode, response.Header, body, response.Request.URL}, nil
}

// withoutURL takes the URL out of an error: it may have a token among its parameters.
func withoutURL(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}

// close ends connections that nobody uses.
func (c *client) close() { c.http.CloseIdleConnections() }

// excerpt is what an error says of an answer: its status, and the begin of a text.
func (a *answer) excerpt() string {
	const most = 200
	text := strings.ToValidUTF8(string(a.body[:min(len(a.body), most)]), "?")
	if text = strings.Join(strings.Fields(text), " "); text != "" {
		text = ": " + text
	}
	return fmt.Sprintf("%d %s%s", a.status, http.StatusText(a.status), text)
}

// parseHeaders reads the headers that a configuration adds. Values are not in the error.
func parseHeaders(v configdef.Values) (http.Header, error) {
	headers := http.Header{}
	for i, one := range strings.Split(v.String(headersKey), v.String(headerSeparatorKey)) {
		if strings.TrimSpace(one) == "" {
			continue
		}
		name, value, found := strings.Cut(one, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		switch {
		case !found:
			return nil, fmt.Errorf("header %d has no colon", i+1)
		case !validName(name):
			return nil, fmt.Errorf("%.40q is no name of a header", name)
		case !validHeader(value):
			return nil, fmt.Errorf("the value of header %s has characters that none may have", name)
		}
		headers.Add(name, value)
	}
	return headers, nil
}

// validName says whether a text can be the name of a header: a token of RFC 9110, section 5.6.2.
func validName(name string) bool {
	const special = "!#$%&'*+-.^_`|~"
	for _, c := range []byte(name) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte(special, c) >= 0) {
			return false
		}
	}
	return name != ""
}

// validHeader says whether a text can be the value of a header.
func validHeader(value string) bool {
	return !strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f })
}
