package rest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// passedOn are the headers of a request that go with it to another worker.
var passedOn = []string{"Authorization", "Content-Type", signatureHeader, algorithmHeader}

// forward has another worker answer. As workers may not agree on who that is, a request is sent on twice at most: forward=true says that it may be once
// more, forward=false that it may not.
func (h *handler) forward(ctx context.Context, w http.ResponseWriter, r *http.Request, body []byte, to string) {
	query := r.URL.Query()
	switch query.Get("forward") {
	case "":
		query.Set("forward", "true")
	case "true":
		query.Set("forward", "false")
	default:
		refuse(w, http.StatusConflict, "the workers do not agree on who is to answer: the group rebalances")
		return
	}
	u, err := url.Parse(strings.TrimSuffix(to, "/") + r.URL.EscapedPath())
	if err != nil {
		refuse(w, http.StatusInternalServerError, "the worker that is to answer has no valid address: "+err.Error())
		return
	}
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, r.Method, u.String(), bytes.NewReader(body))
	if err != nil {
		refuse(w, http.StatusInternalServerError, "forward: "+err.Error())
		return
	}
	for _, name := range passedOn {
		if value := r.Header.Get(name); value != "" {
			req.Header.Set(name, value)
		}
	}
	resp, err := h.deps.Client.Do(req)
	if err != nil {
		refuse(w, http.StatusInternalServerError, "the worker that is to answer does not: "+errors.Unwrap(err).Error())
		return
	}
	defer resp.Body.Close()
	if created, err := url.Parse(resp.Header.Get("Location")); err == nil && created.Path != "" {
		w.Header().Set("Location", origin(r)+created.EscapedPath())
	}
	if kind := resp.Header.Get("Content-Type"); kind != "" {
		w.Header().Set("Content-Type", kind)
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body)
}
