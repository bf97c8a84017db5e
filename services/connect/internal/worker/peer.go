package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/cauce-stream/cauce/services/connect/internal/herder"
	"github.com/cauce-stream/cauce/services/connect/internal/rest"
)

// maxRefusal bounds what is read of another worker's words of why not.
const maxRefusal = 8 << 10

// askLeader sends the leader a request about a connector that is for workers to make, signed with the group's key.
func (w *Worker) askLeader(ctx context.Context, method, leader, connector, what string, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	u, err := url.Parse(strings.TrimSuffix(leader, "/"))
	if err != nil {
		return fmt.Errorf("the leader's address: %w", err)
	}
	u.Path, u.RawPath = "/connectors/"+connector+"/"+what, "/connectors/"+url.PathEscape(connector)+"/"+what
	ctx, cancel := context.WithTimeout(ctx, settleTimeout+answerMargin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if w.signed() {
		key := w.herder.SessionKey()
		if key == nil {
			return fmt.Errorf("%w: there is no session key yet to sign requests with", herder.ErrNotReady)
		}
		if err := rest.Sign(req, text, key, w.config.Values.String("inter.worker.signature.algorithm")); err != nil {
			return err
		}
	}
	resp, err := w.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	words, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if resp.StatusCode >= http.StatusOK && resp.StatusCode < http.StatusMultipleChoices {
		return err
	}
	var refusal struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(words, &refusal) != nil || refusal.Message == "" {
		refusal.Message = string(words)
	}
	return errors.Join(fmt.Errorf("the leader answers %s: %s", resp.Status, refusal.Message), err)
}

// signed says whether requests between workers are signed.
func (w *Worker) signed() bool {
	return w.config.Values.String("connect.protocol") == "sessioned" && !w.config.Standalone
}
