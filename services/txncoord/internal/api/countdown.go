package api

import "sync/atomic"

// countdown calls end when done was called as often as there are parts; at once without any.
func countdown(parts int, end func()) (done func()) {
	var open atomic.Int64
	open.Store(int64(parts))
	if parts == 0 {
		end()
	}
	return func() {
		if open.Add(-1) == 0 {
			end()
		}
	}
}
