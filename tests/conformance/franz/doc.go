// Package franz runs the tests of franz-go's own client package against a server. All of it stands behind the build tag
// "conformance".
package franz
