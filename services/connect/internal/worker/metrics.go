package worker

import (
	"sync"

	"github.com/cauce-stream/cauce/services/connect/internal/pipeline"
	"github.com/cauce-stream/cauce/services/connect/internal/sinktask"
	"github.com/cauce-stream/cauce/services/connect/internal/sourcetask"
	"github.com/cauce-stream/cauce/services/connect/internal/work"
)

// taskMetrics are what is counted of a task as long as the worker has it, through restarts.
type taskMetrics struct {
	errors pipeline.Metrics
	source sourcetask.Metrics
	sink   sinktask.Metrics
}

// metrics are those of all tasks of the worker.
type metrics struct {
	mu    sync.Mutex
	tasks map[work.Item]*taskMetrics
}

func newMetrics() *metrics { return &metrics{tasks: map[work.Item]*taskMetrics{}} }

// of are the metrics of a task.
func (m *metrics) of(item work.Item) *taskMetrics {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tasks[item] == nil {
		m.tasks[item] = &taskMetrics{}
	}
	return m.tasks[item]
}

// forget drops those of a task that the worker no longer has.
func (m *metrics) forget(item work.Item) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.tasks, item)
}
