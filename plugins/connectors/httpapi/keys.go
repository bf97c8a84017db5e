// Package httpapi has the connectors between topics and whatever speaks HTTP: a sink that sends records, and a source that
// polls a URL whose answers are JSON.
package httpapi

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/plugins/connectors/internal/form"
	"github.com/cauce-stream/cauce/plugins/connectors/internal/tlsfiles"
)

// The keys that both connectors have.
const (
	urlKey             = "http.url"
	urlAliasKey        = "http.api.url" // as Confluent's connectors call it
	headersKey         = "headers"
	headerSeparatorKey = "header.separator"
	connectTimeoutKey  = "http.connect.timeout.ms"
	requestTimeoutKey  = "http.request.timeout.ms"

	authKey         = "auth.type"
	userKey         = "connection.user"
	passwordKey     = "connection.password"
	bearerKey       = "bearer.token"
	apiKeyNameKey   = "api.key.name"
	apiKeyValueKey  = "api.key.value"
	oauthURLKey     = "oauth2.token.url"
	oauthIDKey      = "oauth2.client.id"
	oauthSecretKey  = "oauth2.client.secret"
	oauthScopeKey   = "oauth2.client.scope"
	authNone        = "none"
	authBasic       = "basic"
	authBearer      = "bearer"
	authAPIKey      = "api_key"
	authOAuth2      = "oauth2"
	retriesKey      = "max.retries"
	backoffKey      = "retry.backoff.ms"
	maxBackoffKey   = "retry.backoff.max.ms"
	retryOnKey      = "retry.on.status.codes"
	maxTimeoutMs    = 3_600_000.0
	connectionGroup = "Connection"
	securityGroup   = "Security"
	retryGroup      = "Retries"
)

var nonEmpty = configdef.Rule{NonEmpty: true}

var connectionKeys = configdef.Definition{
	{Name: headersKey, Type: configdef.String, Default: new(""), Importance: configdef.Medium,
		Doc: "Headers to send with each request, as `Accept:text/plain`, with `" + headerSeparatorKey + "` between them."},
	{Name: headerSeparatorKey, Type: configdef.String, Default: new("|"), Importance: configdef.Low, Doc: "What is between two headers.", Valid: nonEmpty},
	{Name: connectTimeoutKey, Type: configdef.Int, Default: new("30000"), Importance: configdef.Low, Doc: "How long, in milliseconds, connecting may take, and TLS's handshake.",
		Valid: configdef.Rule{Min: new(1.0), Max: new(maxTimeoutMs)}},
	{Name: requestTimeoutKey, Type: configdef.Int, Default: new("30000"), Importance: configdef.Medium, Doc: "How long, in milliseconds, a request may take until its answer is read.",
		Valid: configdef.Rule{Min: new(1.0), Max: new(maxTimeoutMs)}},
}

var securityKeys = append(configdef.Definition{
	{Name: authKey, Type: configdef.String, Default: new(authNone), Importance: configdef.High,
		Doc:        "How requests say whom they are from: not, by user and password, by a token that is given, by a header of any name, or by a token that a token endpoint gives for the client's credentials.",
		Valid:      configdef.Rule{OneOf: []string{authNone, authBasic, authBearer, authAPIKey, authOAuth2}, IgnoreCase: true},
		Dependents: []string{userKey, passwordKey, bearerKey, apiKeyNameKey, apiKeyValueKey, oauthURLKey, oauthIDKey, oauthSecretKey, oauthScopeKey}},
	{Name: userKey, Type: configdef.String, Importance: configdef.High, Doc: "The user, for `" + authBasic + "`."},
	{Name: passwordKey, Type: configdef.Password, Importance: configdef.High, Doc: "The password, for `" + authBasic + "`."},
	{Name: bearerKey, Type: configdef.Password, Importance: configdef.High, Doc: "The token, for `" + authBearer + "`."},
	{Name: apiKeyNameKey, Type: configdef.String, Default: new("X-API-Key"), Importance: configdef.Medium, Doc: "The name of the header, for `" + authAPIKey + "`.",
		Valid: nonEmpty, Recommended: []string{"X-API-Key", "Authorization"}},
	{Name: apiKeyValueKey, Type: configdef.Password, Importance: configdef.High, Doc: "The value of the header, for `" + authAPIKey + "`."},
	{Name: oauthURLKey, Type: configdef.String, Importance: configdef.High, Doc: "The token endpoint, for `" + authOAuth2 + "`."},
	{Name: oauthIDKey, Type: configdef.String, Importance: configdef.High, Doc: "The client's id, for `" + authOAuth2 + "`."},
	{Name: oauthSecretKey, Type: configdef.Password, Importance: configdef.High, Doc: "The client's secret, for `" + authOAuth2 + "`."},
	{Name: oauthScopeKey, Type: configdef.String, Default: new(""), Importance: configdef.Medium, Doc: "The scopes to ask for, for `" + authOAuth2 + "`."},
}, tlsfiles.Keys...)

// credentials are the keys that mean something with a type of authentication, of which all but the scope must be given.
var credentials = map[string][]string{
	authBasic: {userKey, passwordKey}, authBearer: {bearerKey}, authAPIKey: {apiKeyNameKey, apiKeyValueKey},
	authOAuth2: {oauthURLKey, oauthIDKey, oauthSecretKey, oauthScopeKey},
}

var retryKeys = configdef.Definition{
	{Name: retriesKey, Type: configdef.Int, Default: new("10"), Importance: configdef.Medium,
		Doc: "How often a request that failed is sent again before the task fails; -1 for ever.", Valid: configdef.Rule{Min: new(-1.0)}},
	{Name: backoffKey, Type: configdef.Int, Default: new("1000"), Importance: configdef.Medium,
		Doc:   "How long, in milliseconds, to wait before a request is sent again. It doubles each time. A `Retry-After` of the answer counts where it is longer.",
		Valid: configdef.Rule{Min: new(1.0), Max: new(maxTimeoutMs)}},
	{Name: maxBackoffKey, Type: configdef.Int, Default: new("60000"), Importance: configdef.Low, Doc: "Up to which time, in milliseconds, it doubles.",
		Valid: configdef.Rule{Min: new(1.0), Max: new(maxTimeoutMs)}},
	{Name: retryOnKey, Type: configdef.List, Default: new("408,429,5xx"), Importance: configdef.Medium,
		Doc: "With which status codes a request has failed for now: codes, classes as `5xx`, and ranges as `500-504` or `500-`. So has one without an answer."},
}

// urlText is the URL as it was configured, by whichever of its names.
func urlText(v configdef.Values) string {
	if v.Has(urlKey) {
		return v.String(urlKey)
	}
	return v.String(urlAliasKey)
}

// check finds what is wrong with the keys that both connectors have, and hides those that mean nothing.
func check(v configdef.Values) form.Findings {
	var f form.Findings
	if v.Has(urlKey) && v.Has(urlAliasKey) {
		f.Add(urlAliasKey, errors.New("it means the same as "+urlKey+", which is given, too"))
	}
	_, err := parseHeaders(v)
	f.Add(headersKey, err)
	_, err = parseStatuses(v.List(retryOnKey))
	f.Add(retryOnKey, err)
	auth := strings.ToLower(v.String(authKey))
	for kind, keys := range credentials {
		for _, key := range keys {
			switch {
			case kind != auth:
				f.Hide(key)
			case v.String(key) == "" && key != oauthScopeKey:
				f.Add(key, fmt.Errorf("%s=%s needs it", authKey, auth))
			}
		}
	}
	if auth == authOAuth2 && v.String(oauthURLKey) != "" {
		f.Add(oauthURLKey, checkURL(v.String(oauthURLKey)))
	}
	_, err = tlsfiles.Load(v)
	f.Add(tlsfiles.Keys[0].Name, err)
	return f
}

// checkURL says why a text is no URL to send requests to. It never repeats the text, which may have a password.
func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return errors.New("it is no URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("it must begin with http:// or https://")
	case u.Host == "":
		return errors.New("it names no host")
	case u.User != nil:
		return errors.New("user and password have keys of their own: " + authKey + "=" + authBasic)
	case u.Fragment != "":
		return errors.New("a fragment is not sent")
	}
	return nil
}
