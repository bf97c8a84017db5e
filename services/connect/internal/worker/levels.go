package worker

import (
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/cauce-stream/cauce/services/connect/internal/rest"
)

// rootLogger is the one logger that there is. Others that are named belong to classes which do not exist here.
const rootLogger = "root"

// levels are what REST shows and sets of loggers.
type levels struct {
	level zap.AtomicLevel

	mu       sync.Mutex
	modified *int64
}

func newLevels(l zap.AtomicLevel) *levels { return &levels{level: l} }

// zapLevels are the levels by the names that Kafka's worker has.
var zapLevels = map[string]zapcore.Level{
	"TRACE": zap.DebugLevel, "DEBUG": zap.DebugLevel, "INFO": zap.InfoLevel, "WARN": zap.WarnLevel, "ERROR": zap.ErrorLevel,
	"FATAL": zap.FatalLevel, "OFF": zap.FatalLevel + 1,
}

func (l *levels) all() map[string]rest.Level {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := strings.ToUpper(l.level.Level().String())
	if l.level.Level() > zap.FatalLevel {
		name = "OFF"
	}
	return map[string]rest.Level{rootLogger: {Level: name, LastModified: l.modified}}
}

// set sets the level of a logger, and returns the names of those that it has changed.
func (l *levels) set(logger, level string) []string {
	to, ok := zapLevels[strings.ToUpper(level)]
	if logger != rootLogger || !ok {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now().UnixMilli()
	l.level.SetLevel(to)
	l.modified = &now
	return []string{rootLogger}
}
