package process

import (
	"math"
	"os"
	"runtime/debug"

	"github.com/cauce-stream/cauce/libs/config"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

// fewFiles is the limit of open files below which a node with some thousand
// partitions or connections is in danger.
const fewFiles = 65536

// raiseFileLimit asks for as many open files as the system allows.
func raiseFileLimit(log *zap.Logger) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		log.Warn("reading the limit of open files", zap.Error(err))
		return
	}
	if limit.Cur < limit.Max {
		raised := limit
		raised.Cur = limit.Max
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &raised); err != nil {
			log.Warn("raising the limit of open files", zap.Error(err), zap.Uint64("limit", uint64(limit.Cur)))
		} else {
			limit = raised
		}
	}
	if limit.Cur < fewFiles {
		log.Warn("few files may be open at once; raise the limit (ulimit -n)", zap.Uint64("limit", uint64(limit.Cur)))
	}
}

// setMemoryPolicy tells the garbage collector what memory.limit.bytes and
// memory.gc.percent say, unless GOMEMLIMIT or GOGC say otherwise.
func setMemoryPolicy(values config.Values, log *zap.Logger) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit(values.Long("memory.limit.bytes"), availableMemory()))
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(values.Int("memory.gc.percent"))
	}
	log.Debug("memory policy", zap.Int64("limit_bytes", debug.SetMemoryLimit(-1)), zap.Int("gc_percent", values.Int("memory.gc.percent")))
}

// memoryLimit is the collector's limit in bytes for a configured one and the
// memory that there is (0 when unknown).
func memoryLimit(configured, available int64) int64 {
	switch {
	case configured > 0:
		return configured
	case configured < 0 && available > 0:
		return available / 4 * 3
	}
	return math.MaxInt64
}
