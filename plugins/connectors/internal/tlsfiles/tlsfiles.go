// Package tlsfiles has the keys by which connectors are told of certificates in files, and reads these.
package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/cauce-stream/cauce/libs/plugin/configdef"
)

const (
	caKey   = "tls.ca.file"
	certKey = "tls.cert.file"
	keyKey  = "tls.key.file"
)

// Keys are the keys.
var Keys = configdef.Definition{
	{Name: caKey, Type: configdef.String, Importance: configdef.Medium, Doc: "A PEM file with the certificates of the authorities to trust, in the place of the system's.", Valid: configdef.Rule{NonEmpty: true}},
	{Name: certKey, Type: configdef.String, Importance: configdef.Medium, Doc: "A PEM file with the certificate, and those between it and its authority, to show to the server.", Valid: configdef.Rule{NonEmpty: true}},
	{Name: keyKey, Type: configdef.String, Importance: configdef.Medium, Doc: "A PEM file with the key of `" + certKey + "`.", Valid: configdef.Rule{NonEmpty: true}},
}

// Load reads the files that a configuration names; nil when it names none. The error names the key and the file.
func Load(v configdef.Values) (*tls.Config, error) {
	if !v.Has(caKey) && !v.Has(certKey) && !v.Has(keyKey) {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if v.Has(caKey) {
		text, err := os.ReadFile(v.String(caKey))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", caKey, err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s: %s has no certificate in PEM form", caKey, v.String(caKey))
		}
	}
	if v.Has(certKey) != v.Has(keyKey) {
		return nil, errors.New(certKey + " and " + keyKey + " belong together")
	}
	if v.Has(certKey) {
		pair, err := tls.LoadX509KeyPair(v.String(certKey), v.String(keyKey))
		if err != nil {
			return nil, fmt.Errorf("%s and %s: %w", certKey, keyKey, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
