package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
)

const (
	maxTokenBytes = 1 << 20
	// A token without a lifetime is kept for defaultLifetime. A token is no longer used in the last part of its lifetime.
	defaultLifetime = 5 * time.Minute
	unusedPart      = 10
)

// authorizer says in requests whom they are from.
type authorizer struct {
	kind            string
	user, password  string
	name, value     string // a header's
	tokenURL, scope string
	http            *http.Client

	token string // oauth2: that is kept
	until time.Time
}

func newAuthorizer(v configdef.Values, c *http.Client) authorizer {
	a := authorizer{kind: strings.ToLower(v.String(authKey)), http: c}
	switch a.kind {
	case authBasic:
		a.user, a.password = v.String(userKey), v.String(passwordKey)
	case authBearer:
		a.name, a.value = "Authorization", "Bearer "+v.String(bearerKey)
	case authAPIKey:
		a.name, a.value = v.String(apiKeyNameKey), v.String(apiKeyValueKey)
	case authOAuth2:
		a.user, a.password = v.String(oauthIDKey), v.String(oauthSecretKey)
		a.tokenURL, a.scope = v.String(oauthURLKey), v.String(oauthScopeKey)
	}
	return a
}

// authorize adds the credentials, and says whether they are a token that was kept from an earlier request.
func (a *authorizer) authorize(ctx context.Context, r *http.Request) (kept bool, err error) {
	switch a.kind {
	case authBasic:
		r.SetBasicAuth(a.user, a.password)
	case authBearer, authAPIKey:
		r.Header.Set(a.name, a.value)
	case authOAuth2:
		kept = a.token != "" && time.Now().Before(a.until)
		if !kept {
			if err := a.fetch(ctx); err != nil {
				return false, fmt.Errorf("asking for a token: %w", err)
			}
		}
		r.Header.Set("Authorization", "Bearer "+a.token)
	}
	return kept, nil
}

// forget drops a token that is no longer taken.
func (a *authorizer) forget() { a.token = "" }

// fetch asks for a token with the client's credentials (RFC 6749, section 4.4).
func (a *authorizer) fetch(ctx context.Context) error {
	form := url.Values{"grant_type": {"client_credentials"}}
	if a.scope != "" {
		form.Set("scope", a.scope)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, a.tokenURL, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	r.SetBasicAuth(url.QueryEscape(a.user), url.QueryEscape(a.password))
	response, err := a.http.Do(r)
	if err != nil {
		return withoutURL(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxTokenBytes))
	if err != nil {
		return err
	}
	var granted struct {
		Token   string `json:"access_token"`
		Seconds int64  `json:"expires_in"`
		Fault   string `json:"error"`
	}
	parsed := json.Unmarshal(body, &granted)
	switch {
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("the token endpoint answers %d %.100s", response.StatusCode, granted.Fault)
	case parsed != nil:
		return fmt.Errorf("the token endpoint's answer: %w", parsed)
	case granted.Token == "":
		return errors.New("the token endpoint's answer has no access_token")
	}
	lifetime := defaultLifetime
	if granted.Seconds > 0 {
		lifetime = time.Duration(min(granted.Seconds, maxLifetimeSeconds)) * time.Second
	}
	a.token, a.until = granted.Token, time.Now().Add(lifetime-lifetime/unusedPart)
	return nil
}

// maxLifetimeSeconds is after which time a token is fetched again in any case.
const maxLifetimeSeconds = 24 * 60 * 60
