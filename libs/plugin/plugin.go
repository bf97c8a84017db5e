// Package plugin is all that an author of a Cauce plugin needs: the contracts, and Serve, which offers implementations of
// them to Cauce. A plugin is a program of its own; Cauce starts it, talks to it over a local socket, and starts it anew
// when it crashes. Package kit holds the tests that an assignor or a connector should pass.
package plugin

import "regexp"

// Info says what a plugin is.
type Info struct {
	// Name is how configurations and clients ask for the plugin: 1 to 64 letters, digits, '.', '_' and '-'.
	Name string
	// Version is the author's own; it is shown, not compared.
	Version string
	// Doc is a sentence for people who choose among plugins.
	Doc string
	// WantsLag has Cauce measure the group's lag for each request to an assignor (Topic.Lag), which takes a while.
	WantsLag bool
	// Aliases are other names that configurations may use for a connector: full names of Java classes, which also stand for
	// the simple name of the class, with and without "Connector" at its end.
	Aliases []string
}

// Plugin is an [Assignor], a [Partitioner], a [SourceConnector] or a [SinkConnector]. Its methods are called from several goroutines at once.
type Plugin interface {
	Info() Info
}

// The handshake between Cauce and a plugin: the cookie tells a start by Cauce from one by hand, the protocol version is
// that of package pluginpb. They are no secrets.
const (
	CookieKey       = "CAUCE_PLUGIN"
	CookieValue     = "0b1c9e0e6f2e4f6b8d0a"
	ProtocolVersion = 1
)

// MaxRequestBytes bounds a request to a plugin and what a connector answers, encoded: it is the most that one record can take.
const MaxRequestBytes = 64 << 20

var (
	validName  = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
	validAlias = regexp.MustCompile(`^[A-Za-z0-9._$-]{1,256}$`)
)

// ValidName says whether a plugin may have a name.
func ValidName(name string) bool { return validName.MatchString(name) }

// ValidAlias says whether a connector may have an alias.
func ValidAlias(alias string) bool { return validAlias.MatchString(alias) }
