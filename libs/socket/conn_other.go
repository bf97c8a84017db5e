//go:build !linux || !(amd64 || arm64) || race

package socket

import "net"

// Conn is a TCP connection, which here does tell the scheduler, and the race detector what one end learns from the other.
type Conn struct{ *net.TCPConn }

// New takes over a connection: it is closed through the Conn, or here if there is an error.
func New(tcp *net.TCPConn) (*Conn, error) { return &Conn{tcp}, nil }
