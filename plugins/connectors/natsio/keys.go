// Package natsio has the connectors between topics and NATS: a source and a sink, each for subjects as such and for the streams
// of JetStream.
package natsio

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/plugins/connectors/internal/backoff"
	"github.com/cauce-stream/cauce/plugins/connectors/internal/form"
	"github.com/cauce-stream/cauce/plugins/connectors/internal/tlsfiles"
)

// The keys that both connectors have.
const (
	serversKey   = "nats.servers"
	timeoutKey   = "nats.timeout.ms"
	userKey      = "nats.user"
	passwordKey  = "nats.password"
	tokenKey     = "nats.token"
	credsKey     = "nats.creds"
	credsFileKey = "nats.creds.file"
	domainKey    = "jetstream.domain"
	streamKey    = "stream"
	keyHeaderKey = "key.header"
	retriesKey   = "max.retries"
	backoffKey   = "retry.backoff.ms"
	mostKey      = "retry.backoff.max.ms"

	maxTimeoutMs = 3_600_000.0
)

// A server that says nothing for pingInterval is asked for a sign of life, and given up when it leaves out maxPings.
const (
	pingInterval = 10 * time.Second
	maxPings     = 2
)

var nonEmpty = configdef.Rule{NonEmpty: true}

var connectionKeys = configdef.Definition{
	{Name: serversKey, Type: configdef.List, Required: true, Importance: configdef.High, Valid: nonEmpty,
		Doc: "The servers, as `nats://host:4222` or `tls://host:4222`; others of their cluster are found."},
	{Name: timeoutKey, Type: configdef.Int, Default: new("5000"), Importance: configdef.Low, Doc: "How long, in milliseconds, connecting to a server may take, and its answer to a request.",
		Valid: configdef.Rule{Min: new(1.0), Max: new(maxTimeoutMs)}},
	{Name: domainKey, Type: configdef.String, Importance: configdef.Low, Doc: "The domain of JetStream.", Valid: nonEmpty},
}

var securityKeys = append(configdef.Definition{
	{Name: userKey, Type: configdef.String, Importance: configdef.High, Doc: "The user."},
	{Name: passwordKey, Type: configdef.Password, Importance: configdef.High, Doc: "The user's password."},
	{Name: tokenKey, Type: configdef.Password, Importance: configdef.Medium, Doc: "A token, in the place of user and password."},
	{Name: credsKey, Type: configdef.Password, Importance: configdef.Medium, Doc: "The content of a credentials file: a JWT and the seed of its key."},
	{Name: credsFileKey, Type: configdef.String, Importance: configdef.Medium, Doc: "A credentials file, in the place of its content.", Valid: nonEmpty},
}, tlsfiles.Keys...)

var retryKeys = configdef.Definition{
	{Name: retriesKey, Type: configdef.Int, Default: new("-1"), Importance: configdef.Medium, Doc: "How often in a row what failed is tried again before the task fails; -1 for ever.",
		Valid: configdef.Rule{Min: new(-1.0)}},
	{Name: backoffKey, Type: configdef.Int, Default: new("500"), Importance: configdef.Low, Doc: "How long, in milliseconds, to wait before that. It doubles each time.",
		Valid: configdef.Rule{Min: new(1.0), Max: new(maxTimeoutMs)}},
	{Name: mostKey, Type: configdef.Int, Default: new("10000"), Importance: configdef.Low, Doc: "Up to which time, in milliseconds, it doubles.",
		Valid: configdef.Rule{Min: new(1.0), Max: new(maxTimeoutMs)}},
}

// check finds what is wrong with the keys that both connectors have.
func check(v configdef.Values) form.Findings {
	var f form.Findings
	for _, server := range v.List(serversKey) {
		f.Add(serversKey, checkServer(server))
	}
	var kinds []string
	for _, key := range []string{userKey, tokenKey, credsKey, credsFileKey} {
		if v.String(key) != "" {
			kinds = append(kinds, key)
		}
	}
	if len(kinds) > 1 {
		f.Add(kinds[1], fmt.Errorf("there is %s, too, and one of them suffices", kinds[0]))
	}
	if v.String(passwordKey) != "" && v.String(userKey) == "" {
		f.Add(userKey, errors.New("there is a password and no user"))
	}
	_, err := tlsfiles.Load(v)
	f.Add(tlsfiles.Keys[0].Name, err)
	if v.Has(streamKey) {
		f.Add(streamKey, checkName(v.String(streamKey)))
	}
	return f
}

// checkServer never repeats the text, which may have a password.
func checkServer(text string) error {
	if !strings.Contains(text, "://") {
		text = "nats://" + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "":
		return errors.New("one of them is no URL of a server")
	case !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme):
		return fmt.Errorf("the scheme %.20q is none of nats, tls, ws and wss", u.Scheme)
	case u.User != nil:
		return errors.New("user and password have keys of their own, " + userKey + " and " + passwordKey)
	}
	return nil
}

// checkName says why a text is no name of a stream or a consumer.
func checkName(text string) error {
	if text == "" || strings.ContainsAny(text, ".*>/\\ \t\r\n") {
		return errors.New("it must have no dots, no blanks, no slashes and none of * and >")
	}
	return nil
}

// checkSubject says why a text is no subject; wild says whether it may be a pattern of them.
func checkSubject(text string, wild bool) error {
	if strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c == 0x7f }) {
		return fmt.Errorf("the subject %.100q has blanks or control characters", text)
	}
	tokens := strings.Split(text, ".")
	for i, token := range tokens {
		switch {
		case token == "":
			return fmt.Errorf("the subject %.100q has an empty part", text)
		case wild && (token == "*" || token == ">" && i == len(tokens)-1):
		case token == "*" || token == ">":
			return fmt.Errorf("the subject %.100q has the wildcard %s where none may be", text, token)
		}
	}
	return nil
}

// connection is one to a server. It ends for good with the first failure: what is on its way then is lost, and whoever uses it
// must know that.
type connection struct {
	*nats.Conn
	closed chan struct{}
}

// dial connects to one of the servers.
func dial(v configdef.Values, name string) (*connection, error) {
	c := &connection{closed: make(chan struct{})}
	options := []nats.Option{
		nats.Name(name), nats.Timeout(v.Millis(timeoutKey)), nats.NoReconnect(), nats.PingInterval(pingInterval), nats.MaxPingsOutstanding(maxPings),
		nats.ClosedHandler(func(*nats.Conn) { close(c.closed) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { slog.Warn("NATS reports an error", "error", err) }),
	}
	files, err := tlsfiles.Load(v)
	if err != nil {
		return nil, err
	}
	if files != nil {
		options = append(options, nats.Secure(files))
	}
	switch {
	case v.String(userKey) != "":
		options = append(options, nats.UserInfo(v.String(userKey), v.String(passwordKey)))
	case v.String(tokenKey) != "":
		options = append(options, nats.Token(v.String(tokenKey)))
	case v.String(credsKey) != "":
		options = append(options, nats.UserCredentialBytes([]byte(v.String(credsKey))))
	case v.String(credsFileKey) != "":
		options = append(options, nats.UserCredentials(v.String(credsFileKey)))
	}
	if c.Conn, err = nats.Connect(strings.Join(v.List(serversKey), ","), options...); err != nil {
		return nil, fmt.Errorf("connecting to NATS: %w", err)
	}
	return c, nil
}

// end closes the connection, and waits until that is done.
func (c *connection) end() {
	c.Close()
	<-c.closed
}

// streams is JetStream by a connection.
func (c *connection) streams(v configdef.Values, options ...jetstream.JetStreamOpt) (jetstream.JetStream, error) {
	options = append(options, jetstream.WithDefaultTimeout(v.Millis(timeoutKey)))
	if domain := v.String(domainKey); domain != "" {
		return jetstream.NewWithDomain(c.Conn, domain, options...)
	}
	return jetstream.New(c.Conn, options...)
}

func newBackoff(v configdef.Values) backoff.Backoff {
	return backoff.Backoff{Limit: v.Int(retriesKey), First: v.Millis(backoffKey), Most: v.Millis(mostKey)}
}

// lasting says whether an error will come again whatever is done.
func lasting(err error) bool {
	for _, one := range []error{nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired, nats.ErrPermissionViolation,
		jetstream.ErrStreamNotFound, jetstream.ErrJetStreamNotEnabledForAccount, context.Canceled} {
		if errors.Is(err, one) {
			return true
		}
	}
	return false
}
