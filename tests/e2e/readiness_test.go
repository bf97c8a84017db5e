//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// readyz asks a program's admin server whether it is ready.
func (p *program) readyz(ctx context.Context) (status int, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.admin+"/readyz", nil)
	if err != nil {
		return 0, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), errors.Join(err, response.Body.Close())
}

// TestNodesAreReadyOnceRegistered starts the nodes before there is a controller.
func TestNodesAreReadyOnceRegistered(t *testing.T) {
	c := newCluster(t)
	c.startNodes(t)
	for _, p := range c.nodes {
		eventually(t, p.name+" answers", func(ctx context.Context) error {
			status, body, err := p.readyz(ctx)
			if err == nil && status != http.StatusServiceUnavailable {
				t.Errorf("%s without a controller: %d %s", p.name, status, body)
			}
			if err == nil && !strings.Contains(body, "node: ") {
				err = errors.New(body) // it has only just started
			}
			return err
		})
	}
	c.startController(t)
	for _, p := range c.nodes {
		eventually(t, p.name+" is ready", func(ctx context.Context) error {
			status, body, err := p.readyz(ctx)
			if err == nil && status != http.StatusOK {
				err = fmt.Errorf("%d %s", status, body)
			}
			return err
		})
	}
	for _, p := range c.nodes {
		p.stop(t)
	}
	c.controller.stop(t)
}
