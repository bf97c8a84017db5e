package worker

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/cauce-stream/cauce/services/connect/internal/rest"
)

const (
	// rootLogger is the logger above all others.
	rootLogger = "root"
	// connectLogger is that of the worker, and above those of connectors: connect.NAME.
	connectLogger = "connect"
	// maxLevels bounds for how many loggers a level is kept: names are the clients' to choose.
	maxLevels = 1000
)

// errTooManyLevels is that no level can be set of one more logger.
var errTooManyLevels = errors.New("levels of 1000 loggers are set, which are the most")

// levels are what REST shows and sets of loggers. A logger writes by its own level, or that of the nearest above it by dots in names. As in Kafka's
// worker any name has a level once one is set, whether or not anything writes under it.
type levels struct {
	root zap.AtomicLevel

	mu       sync.Mutex
	modified *int64 // of root
	named    map[string]namedLevel
}

type namedLevel struct {
	level    zapcore.Level
	modified *int64 // ms since 1970, nil for never
}

func newLevels(root zap.AtomicLevel) *levels {
	return &levels{root: root, named: map[string]namedLevel{}}
}

// zapLevels are the levels by the names that Kafka's worker has.
var zapLevels = map[string]zapcore.Level{
	"TRACE": zap.DebugLevel - 1, "DEBUG": zap.DebugLevel, "INFO": zap.InfoLevel, "WARN": zap.WarnLevel, "ERROR": zap.ErrorLevel,
	"FATAL": zap.FatalLevel, "OFF": zap.FatalLevel + 1,
}

func levelName(l zapcore.Level) string {
	for name, level := range zapLevels {
		if level == l {
			return name
		}
	}
	return strings.ToUpper(l.String())
}

func (l *levels) all() map[string]rest.Level {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[string]rest.Level{rootLogger: {Level: levelName(l.root.Level()), LastModified: l.modified}}
	for name, own := range l.named {
		all[name] = rest.Level{Level: levelName(own.level), LastModified: own.modified}
	}
	return all
}

// set sets the level of a logger and of those below it that have one, which for root are all, and returns the names of those that had another before.
func (l *levels) set(logger, level string) ([]string, error) {
	to, ok := zapLevels[strings.ToUpper(level)]
	if !ok {
		return nil, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now().UnixMilli()
	var changed []string
	if logger == rootLogger && l.root.Level() != to {
		l.root.SetLevel(to)
		l.modified = &now
		changed = append(changed, rootLogger)
	}
	if _, ok := l.named[logger]; !ok && logger != rootLogger {
		if len(l.named) >= maxLevels {
			return nil, errTooManyLevels
		}
		l.named[logger] = namedLevel{level: l.effective(logger)}
	}
	for _, name := range slices.Sorted(maps.Keys(l.named)) {
		below := logger == rootLogger || name == logger || strings.HasPrefix(name, logger+".")
		if below && l.named[name].level != to {
			l.named[name] = namedLevel{to, &now}
			changed = append(changed, name)
		}
	}
	return changed, nil
}

// effective is the level that a logger writes by.
func (l *levels) effective(logger string) zapcore.Level {
	if level, ok := l.nearest(logger); ok {
		return level
	}
	return l.root.Level()
}

// own is the level that is set for a logger or for the nearest above it, other than root.
func (l *levels) own(logger string) (level zapcore.Level, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.nearest(logger)
}

func (l *levels) nearest(logger string) (level zapcore.Level, ok bool) {
	for len(l.named) > 0 {
		if one, ok := l.named[logger]; ok {
			return one.level, true
		}
		dot := strings.LastIndexByte(logger, '.')
		if dot < 0 {
			break
		}
		logger = logger[:dot]
	}
	return 0, false
}

// lowest is the lowest level that any logger has.
func (l *levels) lowest() zapcore.Level {
	l.mu.Lock()
	defer l.mu.Unlock()
	lowest := l.root.Level()
	for _, one := range l.named {
		lowest = min(lowest, one.level)
	}
	return lowest
}

// leveled writes by the levels of loggers.
type leveled struct {
	zapcore.Core
	levels *levels
}

func (l *levels) wrap(c zapcore.Core) zapcore.Core { return leveled{c, l} }

func (c leveled) Enabled(level zapcore.Level) bool { return level >= c.levels.lowest() }

func (c leveled) With(fields []zapcore.Field) zapcore.Core {
	return leveled{c.Core.With(fields), c.levels}
}

// Check adds the core for what a logger's own level lets through, whatever the core's level.
func (c leveled) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	level, ok := c.levels.own(e.LoggerName)
	switch {
	case !ok:
		return c.Core.Check(e, to)
	case e.Level < level:
		return to
	}
	return to.AddCore(e, c.Core)
}
