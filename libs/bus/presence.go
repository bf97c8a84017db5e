package bus

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
)

const presencePrefix = "cauce.presence."

// Announce makes this connection present under a name, which is a token of letters, digits, - and _, for as long as the
// subscription and the connection are open.
func (c *Conn) Announce(name string) (*Subscription, error) {
	return c.subscribe(presencePrefix+name, "", func(m *nats.Msg) {
		if err := c.nc.Publish(m.Reply, nil); err != nil {
			c.log.Debug("presence not answered")
		}
	})
}

// Present asks whether a connection announces a name. False means that the servers know of none: its process has ended,
// or is about to connect again. A process that is slow or stopped is still connected: where the server is in this
// process it counts as present and nobody is asked, elsewhere the error, of those that a Call has, says neither.
func (c *Conn) Present(ctx context.Context, name string) (bool, error) {
	if c.wanted != nil {
		return c.wanted(presencePrefix + name), nil
	}
	switch _, err := c.request(ctx, presencePrefix+name, nil, nil); {
	case errors.Is(err, ErrNoResponder):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, nil
}
