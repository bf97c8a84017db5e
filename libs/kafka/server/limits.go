package server

import (
	"context"
	"fmt"
	"sync"
)

// Limits bounds the connections of a node over all its listeners: the servers that are given the same Limits share it.
type Limits struct {
	all bound

	mu    sync.Mutex
	perIP int
	byIP  map[string]int
}

// NewLimits makes a bound for all connections (max.connections: further ones wait until others end) and one for those of an
// address (max.connections.per.ip: further ones are closed).
func NewLimits(maxConnections, maxPerIP int) *Limits {
	return &Limits{all: bound{most: maxConnections}, perIP: maxPerIP, byIP: make(map[string]int)}
}

// Set changes the bounds. Connections that are above them already stay.
func (l *Limits) Set(maxConnections, maxPerIP int) {
	l.all.set(maxConnections)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.perIP = maxPerIP
}

// enter counts a connection of an address, or says why it may not have one more.
func (l *Limits) enter(host string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byIP[host] >= l.perIP {
		return fmt.Errorf("%s has %d connections already (max.connections.per.ip)", host, l.byIP[host])
	}
	l.byIP[host]++
	return nil
}

func (l *Limits) leave(host string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byIP[host]--; l.byIP[host] == 0 {
		delete(l.byIP, host)
	}
}

// bound is how many connections there are, and may be.
type bound struct {
	mu         sync.Mutex
	most, open int
	room       chan struct{} // closed once there may be room for those who wait; nil while nobody does
}

// take waits for room for one more, and reports false when ctx ends first.
func (b *bound) take(ctx context.Context) bool {
	for {
		b.mu.Lock()
		if b.open < b.most {
			b.open++
			b.mu.Unlock()
			return true
		}
		if b.room == nil {
			b.room = make(chan struct{})
		}
		room := b.room
		b.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return false
		}
	}
}

func (b *bound) give() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open--
	b.tell()
}

func (b *bound) set(most int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.most = most
	b.tell()
}

// tell has those who wait look again. mu is held.
func (b *bound) tell() {
	if b.room != nil {
		close(b.room)
		b.room = nil
	}
}
