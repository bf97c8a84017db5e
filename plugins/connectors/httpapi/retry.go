package httpapi

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
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

// retries count what failed in a row, and say when to try again.
type retries struct {
	on          statuses
	limit       int64 // -1 for none
	first, most time.Duration

	failed int64
	due    time.Time
}

func newRetries(v configdef.Values) (retries, error) {
	on, err := parseStatuses(v.List(retryOnKey))
	return retries{on: on, limit: v.Int(retriesKey), first: v.Millis(backoffKey), most: v.Millis(maxBackoffKey)}, err
}

// again says whether what has failed may be tried once more, and from when on: after the backoff, or after least if that is longer.
func (r *retries) again(now time.Time, least time.Duration) bool {
	if r.limit >= 0 && r.failed >= r.limit {
		return false
	}
	wait := r.first
	for range min(r.failed, 40) {
		if wait = 2 * wait; wait >= r.most {
			break
		}
	}
	wait = min(wait, max(r.most, r.first))
	wait = wait*9/10 + time.Duration(rand.Int64N(int64(wait/5)+1)) // so that tasks that failed together do not come back together
	r.failed++
	r.due = now.Add(max(wait, least))
	return true
}

// succeed has the next failure be the first.
func (r *retries) succeed() { r.failed, r.due = 0, time.Time{} }
