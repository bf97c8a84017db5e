package bench

import (
	"fmt"
	"time"

	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/output"
	"github.com/cauce-stream/cauce/cmd/cauce/internal/cli/session"
)

type result struct {
	Topic     string   `json:"topic"`
	Records   int64    `json:"records"`
	Bytes     int64    `json:"bytes"`
	Seconds   float64  `json:"seconds"`
	PerSecond float64  `json:"records_per_second"`
	MBPerSec  float64  `json:"megabytes_per_second"` // 1 MB is 1,000,000 bytes
	Latency   *latency `json:"latency_ms,omitempty"`
}

// latency is in milliseconds.
type latency struct {
	From string  `json:"from"` // due: when the record was due; call: when it was handed to the client
	P50  float64 `json:"p50"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99_9"`
	Max  float64 `json:"max"`
}

// result returns what was counted since the start, or the end of the warm-up, until now.
func (m *meter) result(topic, from string) result {
	m.turn()
	m.mu.Lock()
	defer m.mu.Unlock()
	seconds := time.Since(m.started).Seconds()
	r := result{Topic: topic, Records: m.total.records, Bytes: m.total.bytes, Seconds: seconds}
	r.PerSecond, r.MBPerSec = float64(r.Records)/seconds, float64(r.Bytes)/megabyte/seconds
	if m.latency {
		at := func(q float64) float64 { return float64(m.total.latency.quantile(q).Microseconds()) / 1000 }
		r.Latency = &latency{from, at(0.5), at(0.95), at(0.99), at(0.999), at(1)}
	}
	return r
}

func print(s *session.Session, r result) error {
	return s.Print(r, func() *output.Table {
		columns := []output.Column{output.Left("TOPIC"), output.Right("RECORDS"), output.Right("SECONDS"), output.Right("RECORDS/S"), output.Right("MB/S")}
		row := []any{r.Topic, r.Records, fmt.Sprintf("%.2f", r.Seconds), fmt.Sprintf("%.0f", r.PerSecond), fmt.Sprintf("%.2f", r.MBPerSec)}
		if r.Latency != nil {
			for _, title := range []string{"P50 MS", "P95 MS", "P99 MS", "P99.9 MS", "MAX MS"} {
				columns = append(columns, output.Right(title))
			}
			for _, value := range []float64{r.Latency.P50, r.Latency.P95, r.Latency.P99, r.Latency.P999, r.Latency.Max} {
				row = append(row, fmt.Sprintf("%.2f", value))
			}
		}
		table := output.NewTable(columns...)
		table.Row(row...)
		return table
	})
}
