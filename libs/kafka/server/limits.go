package server

import (
	"context"
	"fmt"
	"sync"
)

// Limits bounds the connections of a node over all its listeners: the servers that are given the same Limits share it.
type Limits struct {
	slots    chan struct{} // one per connection, nil without a bound
	maxPerIP int           // 0 for no bound

	mu    sync.Mutex
	perIP map[string]int
}

// NewLimits makes a bound for all connections (max.connections: further ones wait until others end) and one for those of an
// address (max.connections.per.ip: further ones are closed); 0 is no bound.
func NewLimits(maxConnections, maxPerIP int) *Limits {
	return &Limits{slots: slots(maxConnections), maxPerIP: maxPerIP, perIP: make(map[string]int)}
}

func slots(n int) chan struct{} {
	if n <= 0 {
		return nil
	}
	return make(chan struct{}, n)
}

// take waits for a slot in each, and reports false when ctx ends first.
func take(ctx context.Context, all ...chan struct{}) bool {
	for i, slots := range all {
		if slots == nil {
			continue
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			give(all[:i]...)
			return false
		}
	}
	return true
}

func give(all ...chan struct{}) {
	for _, slots := range all {
		if slots != nil {
			<-slots
		}
	}
}

// enter counts a connection of an address, or says why it may not have one more.
func (l *Limits) enter(host string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.maxPerIP > 0 && l.perIP[host] >= l.maxPerIP {
		return fmt.Errorf("%s has %d connections already (max.connections.per.ip)", host, l.maxPerIP)
	}
	l.perIP[host]++
	return nil
}

func (l *Limits) leave(host string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.perIP[host]--; l.perIP[host] == 0 {
		delete(l.perIP, host)
	}
}
