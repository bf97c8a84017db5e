package server

import (
	"context"
	"time"

	"go.uber.org/zap"
)

// leastLook is between two looks at all connections, however short their limits are.
const leastLook = 10 * time.Millisecond

// watch closes connections that are idle for IdleTimeout, or that began a request and did not come forward
// with it for FrameTimeout, and gives unused buffers back. It looks at counters now and then, which costs requests less than deadlines do;
// a connection may therefore live up to a quarter longer than its limit, and 20 ms at least.
func (s *Server) watch(ctx context.Context) {
	type sighting struct {
		activity uint64
		at       time.Time
	}
	seen := make(map[*Conn]sighting)
	tick := time.NewTicker(max(min(s.cfg.IdleTimeout, s.cfg.FrameTimeout)/4, leastLook))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		alive := s.connections()
		current := make(map[*Conn]sighting, len(alive))
		for _, c := range alive {
			last, known := seen[c]
			if activity := c.activity.Load(); !known || activity != last.activity {
				last = sighting{activity, now}
			}
			current[c] = last
			switch quiet := now.Sub(last.at); {
			case quiet >= s.cfg.FrameTimeout && c.midFrame.Load():
				s.log.Warn("connection closed: its request stopped arriving", zap.String("client", c.remoteHost), zap.Duration("after", quiet))
			case quiet >= s.cfg.IdleTimeout && c.idle():
				s.metrics.expired.Inc()
				s.log.Debug("idle connection closed", zap.String("client", c.remoteHost), zap.Duration("after", quiet))
			default:
				continue
			}
			c.kill()
		}
		seen = current
		s.buffers.trim()
	}
}

// idle reports whether the connection owes no answer.
func (c *Conn) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inFlight == 0
}
