package controller

import (
	"fmt"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/trace"

	"github.com/cauce-stream/cauce/libs/bus"
	"github.com/cauce-stream/cauce/libs/bus/controlpb"
	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/controller/internal/quorum"
)

// machine is the committed image: what the quorum's entries add up to. An entry is one framed record batch (package
// metadata), and its index is the batch's offset.
type machine struct {
	image atomic.Pointer[metadata.Image]
	push  func(bus.Update) // of a batch that this controller decided itself

	mu      sync.Mutex
	lead    quorum.Leadership
	changed chan struct{} // holds one signal
}

func newMachine(s *Service) *machine {
	m := &machine{changed: make(chan struct{}, 1), lead: quorum.Leadership{Leader: -1}}
	m.image.Store(metadata.Empty())
	m.push = func(u bus.Update) {
		s.send(func() {
			if err := s.bus.Push(controlpb.MetadataStream, u); err != nil {
				s.log.Debug(err.Error())
			}
		})
	}
	return m
}

// Restore takes over a snapshot's image.
func (m *machine) Restore(_ int64, data []byte) error {
	im, err := controlpb.DecodeSnapshot(data)
	if err != nil {
		return err
	}
	m.image.Store(im)
	return nil
}

// decision is what a batch comes to: the image that has it, and the span of its commit.
type decision struct {
	image *metadata.Image
	trace trace.SpanContext
}

// Apply adds a batch. value is its *decision if this controller decided it under its present claim.
func (m *machine) Apply(index int64, data []byte, value any) error {
	old := m.image.Load()
	decided, own := value.(*decision)
	var next *metadata.Image
	if own {
		if next = decided.image; next.Offset() != index {
			return fmt.Errorf("decided for offset %d and committed at %d", next.Offset(), index)
		}
	} else {
		recs, rest, err := metadata.NextBatch(data)
		if err != nil {
			return err
		}
		if len(rest) > 0 {
			return fmt.Errorf("%d bytes after the batch", len(rest))
		}
		if next, _, err = old.Apply(index, recs); err != nil {
			return err
		}
	}
	m.image.Store(next)
	if own {
		m.push(bus.Update{PrevOffset: old.Offset(), Offset: index, Payload: data, Trace: decided.trace})
	}
	return nil
}

// Snapshot encodes the present image.
func (m *machine) Snapshot() func() ([]byte, error) {
	im := m.image.Load()
	return func() ([]byte, error) { return controlpb.EncodeSnapshot(im) }
}

// Leadership leaves the news for the event loop.
func (m *machine) Leadership(l quorum.Leadership) {
	m.mu.Lock()
	m.lead = l
	m.mu.Unlock()
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

func (m *machine) leadership() quorum.Leadership {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lead
}
