package httpapi

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/plugins/connectors/internal/backoff"
)

// maxRetryAfter bounds how long an answer can have a task wait.
const maxRetryAfter = time.Hour

// statuses are ranges of status codes, both ends included.
type statuses [][2]int

func (s statuses) has(status int) bool {
	for _, r := range s {
		if status >= r[0] && status <= r[1] {
			return true
		}
	}
	return false
}

// parseStatuses reads codes, classes as 5xx, and ranges as 500-504 or 500-.
func parseStatuses(texts []string) (statuses, error) {
	var all statuses
	for _, text := range texts {
		if class, is := strings.CutSuffix(strings.ToLower(text), "xx"); is && len(class) == 1 && class >= "1" && class <= "5" {
			first := int(class[0]-'0') * 100
			all = append(all, [2]int{first, first + 99})
			continue
		}
		from, to, isRange := strings.Cut(text, "-")
		first, err := parseStatus(from)
		last := first
		if err == nil && isRange {
			if last = 599; to != "" {
				last, err = parseStatus(to)
			}
		}
		if err != nil || last < first {
			return nil, fmt.Errorf("%.40q is neither a status code from 100 to 599 nor a class as 5xx nor a range", text)
		}
		all = append(all, [2]int{first, last})
	}
	return all, nil
}

func parseStatus(text string) (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err == nil && (n < 100 || n > 599) {
		err = fmt.Errorf("%d is no status code", n)
	}
	return n, err
}

// retryAfter is how long an answer has its sender wait (RFC 9110, section 10.2.3); 0 where it does not say so.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	var wait time.Duration
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil {
		wait = time.Duration(min(seconds, int64(maxRetryAfter/time.Second))) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), maxRetryAfter)
}

// retries say with which status codes to try again, and when.
type retries struct {
	backoff.Backoff
	on statuses
}

func newRetries(v configdef.Values) (retries, error) {
	on, err := parseStatuses(v.List(retryOnKey))
	return retries{backoff.Backoff{Limit: v.Int(retriesKey), First: v.Millis(backoffKey), Most: v.Millis(maxBackoffKey)}, on}, err
}
