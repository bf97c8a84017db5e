package server

import "github.com/cauce-stream/cauce/libs/security"

// Conn is one client connection.
type Conn struct {
	listener string
	host     string
}

// ID is unique among the connections of the process.
func (c *Conn) ID() uint64 { return 0 }

// Listener is the name of the listener the client connected to.
func (c *Conn) Listener() string { return c.listener }

// RemoteHost is the client's IP address without port.
func (c *Conn) RemoteHost() string { return c.host }

// Principal is who the client is.
func (c *Conn) Principal() security.Principal { return security.Anonymous }
