package move

import (
	"context"
	"math"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/services/broker/internal/quota"
)

// TestThreadsAreBounded has more threads asked for than there are to be.
func TestThreadsAreBounded(t *testing.T) {
	before := runtime.NumGoroutine()
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Threads: 10_000, Quota: quota.New(1, math.MaxInt32), NowMs: func() int64 { return time.Now().UnixMilli() }, Log: zap.NewNop()})
		ctx, stop := context.WithCancel(t.Context())
		go s.Run(ctx)
		synctest.Wait()
		if n := runtime.NumGoroutine() - before; n < maxThreads || n > 2*maxThreads {
			t.Errorf("%d goroutines", n)
		}
		stop()
	})
}
