package host

import (
	"encoding/json"
	"net/http"
	"time"
)

// Status is what GET /plugins tells of one plugin, or of a program that was never started.
type Status struct {
	Kind    string `json:"kind,omitempty"`
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
	Doc     string `json:"doc,omitempty"`
	// State is of the plugin's program: stopped, running, failed or refused; or shadowed, when another program comes first.
	State     string  `json:"state"`
	Fault     string  `json:"fault,omitempty"` // of the last start or process
	PID       int     `json:"pid,omitempty"`
	Restarts  int     `json:"restarts"`
	Tasks     int     `json:"tasks"` // of the program's connectors, each a process of its own
	Calls     uint64  `json:"calls"`
	P50Millis float64 `json:"p50_ms"` // of the latest calls
	P99Millis float64 `json:"p99_ms"`
	Path      string  `json:"path"`
	SHA256    string  `json:"sha256,omitempty"`
}

// List tells all plugins, in the order in which they count.
func (h *Host) List() []Status {
	list := []Status{}
	seen := map[offerKey]bool{}
	for _, f := range h.snapshot() {
		f.mu.Lock()
		program := Status{State: f.state(), Path: f.path, SHA256: f.sum, Restarts: max(f.starts-1, 0), Tasks: f.tasks}
		if f.fault != nil {
			program.Fault = f.fault.Error()
		}
		if f.running != nil {
			program.PID = f.running.runner.cmd.Process.Pid
		}
		offers := f.offers
		f.mu.Unlock()
		if len(offers) == 0 {
			list = append(list, program)
		}
		for _, o := range offers {
			s, key := program, offerKey{o.kind, o.name}
			s.Kind, s.Name, s.Version, s.Doc = kindName(o.kind), o.name, o.version, o.doc
			if seen[key] {
				s.State = "shadowed"
			} else {
				calls, p50, p99 := h.latency(key).percentiles()
				s.Calls, s.P50Millis, s.P99Millis = calls, millis(p50), millis(p99)
			}
			seen[key] = true
			list = append(list, s)
		}
	}
	return list
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// ServeHTTP answers with List as JSON.
func (h *Host) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(h.List()) // a client that has gone is no fault
}
