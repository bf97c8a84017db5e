package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/cauce-stream/cauce/libs/config"
)

const (
	healthcheckTimeout  = 3 * time.Second
	mostHealthcheckText = 4096 // bytes of an answer that are reported
)

// healthcheck asks the program with the same configuration on this machine
// whether it is ready, and returns what it lacks when it is not. It is what a
// container engine runs in an image that has nothing but the program.
func healthcheck(ctx context.Context, values config.Values) error {
	address := values.String("admin.listener")
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("there is no admin.listener to ask: %w", err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	ctx, cancel := context.WithTimeout(ctx, healthcheckTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/readyz", nil)
	if err != nil {
		return err
	}
	direct := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // whatever proxy the environment names
	response, err := direct.Do(request)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, mostHealthcheckText))
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: %s", strings.TrimSpace(string(text)))
	}
	return nil
}
