package host

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

const (
	// maxLineBytes bounds a line of a plugin's output; what is longer is cut into several.
	maxLineBytes = 16 << 10
	// A plugin that floods its output has its first lines logged in each second, by message, and then each hundredth.
	linesPerSecond = 100
)

// output turns what a plugin writes into lines of the log, and remembers the last words of one that dies.
type output struct {
	log *zap.Logger

	mu   sync.Mutex
	part []byte
	last string
}

func newOutput(log *zap.Logger) *output {
	return &output{log: log.WithOptions(zap.WrapCore(func(c zapcore.Core) zapcore.Core {
		return zapcore.NewSamplerWithOptions(c, time.Second, linesPerSecond, linesPerSecond)
	}))}
}

// Write takes bytes of any length. It never fails.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(p)
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		if end < 0 && len(o.part)+len(p) < maxLineBytes {
			o.part = append(o.part, p...)
			break
		}
		take := min(max(end, 0), maxLineBytes-len(o.part))
		if end < 0 {
			take = maxLineBytes - len(o.part)
		}
		o.line(append(o.part, p[:take]...))
		o.part = o.part[:0]
		if take == end {
			take++ // the line break
		}
		p = p[take:]
	}
	return n, nil
}

// Close logs a last line without an end.
func (o *output) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.line(o.part)
	o.part = nil
	return nil
}

// lastWords is the line that says best why a process died: a panic, else the last one.
func (o *output) lastWords() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last
}

func (o *output) line(text []byte) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return
	}
	level, message, fields := parseLine(text)
	if !strings.HasPrefix(o.last, "panic: ") && !strings.HasPrefix(o.last, "fatal error: ") {
		o.last = message
	}
	o.log.Log(level, message, fields...)
}

// parseLine reads a line of log/slog's JSON form, or of hclog's; any other line is a message.
func parseLine(text []byte) (zapcore.Level, string, []zap.Field) {
	var values map[string]any
	if text[0] != '{' || json.Unmarshal(text, &values) != nil {
		return zapcore.InfoLevel, string(text), nil
	}
	level, message := zapcore.InfoLevel, ""
	var fields []zap.Field
	for key, value := range values {
		text, _ := value.(string)
		switch key {
		case "time", "@timestamp":
		case "level", "@level":
			if parsed, err := zapcore.ParseLevel(text); err == nil && parsed <= zapcore.ErrorLevel {
				level = parsed
			}
		case "msg", "@message":
			message = text
		default:
			fields = append(fields, zap.Any(key, value))
		}
	}
	return level, message, fields
}
