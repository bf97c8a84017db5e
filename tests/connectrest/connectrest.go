// Package connectrest asks the REST interface of Connect workers.
package connectrest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// Refusal is an answer other than 2xx.
type Refusal struct {
	Code int
	Body []byte
}

// Error is the code with what the worker says.
func (r *Refusal) Error() string { return fmt.Sprintf("%d: %s", r.Code, bytes.TrimSpace(r.Body)) }

// Ask sends a request with a body, unless that is nil, and reads the answer into the place that is given if it is not nil. The error wraps a [*Refusal]
// where the worker has answered.
func Ask(ctx context.Context, client *http.Client, method, url string, body, into any) error {
	var text io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return err
		}
		text = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, text)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return err
	case res.StatusCode/100 != 2:
		return fmt.Errorf("%s %s: %w", method, url, &Refusal{res.StatusCode, raw})
	case into == nil:
		return nil
	}
	return json.Unmarshal(raw, into)
}
