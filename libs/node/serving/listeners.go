package serving

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/cauce-stream/cauce/libs/config"
	"github.com/cauce-stream/cauce/libs/security"
)

// listener is one element of listeners or advertised.listeners: NAME://host:port.
type listener struct {
	name, host string
	port       uint16
}

func (l listener) address() string { return net.JoinHostPort(l.host, strconv.Itoa(int(l.port))) }

// parseListeners reads a list of listeners; names and ports other than 0 are unique. The error names the key and the element.
func parseListeners(key string, list []string) ([]listener, error) {
	var all []listener
	for _, text := range list {
		l, err := parseListener(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", key, text, err)
		}
		for _, other := range all {
			if other.name == l.name || (other.port == l.port && other.host == l.host && l.port != 0) {
				return nil, fmt.Errorf("%s: %q repeats the name or the address of another listener", key, text)
			}
		}
		all = append(all, l)
	}
	return all, nil
}

func parseListener(text string) (listener, error) {
	name, address, ok := strings.Cut(text, "://")
	if !ok || name == "" {
		return listener{}, errors.New("not of the form NAME://host:port")
	}
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return listener{}, fmt.Errorf("not of the form NAME://host:port: %w", err)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return listener{}, fmt.Errorf("port %q is not between 0 and 65535", portText)
	}
	return listener{name: strings.ToUpper(name), host: host, port: uint16(port)}, nil
}

// protocolOf finds a listener's security protocol in listener.security.protocol.map.
func protocolOf(values config.Values, name string) (security.Protocol, error) {
	const key = "listener.security.protocol.map"
	for _, pair := range values.List(key) {
		if from, to, _ := strings.Cut(pair, ":"); strings.EqualFold(from, name) {
			p, err := security.ParseProtocol(to)
			if err == nil && p != security.Plaintext {
				err = fmt.Errorf("%s is not supported yet; use PLAINTEXT", p)
			}
			if err != nil {
				return 0, fmt.Errorf("%s: listener %s: %w", key, name, err)
			}
			return p, nil
		}
	}
	return 0, fmt.Errorf("%s: listener %s is not in it", key, name)
}

// advertise says how clients reach the bound listeners: by advertised.listeners where it names one, else by the address
// itself. A listener on all addresses is advertised by the host's name.
func advertise(bound, advertised []listener) ([]listener, error) {
	var out []listener
	for _, l := range bound {
		for _, a := range advertised {
			if a.name == l.name {
				l.host = a.host
				if a.port != 0 {
					l.port = a.port
				}
			}
		}
		if ip := net.ParseIP(l.host); l.host == "" || (ip != nil && ip.IsUnspecified()) {
			host, err := os.Hostname()
			if err != nil {
				return nil, fmt.Errorf("listener %s has no host to advertise; set advertised.listeners: %w", l.name, err)
			}
			l.host = host
		}
		out = append(out, l)
	}
	for _, a := range advertised {
		known := false
		for _, l := range bound {
			known = known || l.name == a.name
		}
		if !known {
			return nil, fmt.Errorf("advertised.listeners: %s is not among listeners", a.name)
		}
	}
	return out, nil
}
