package clientconfig

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// SecurityProtocols are the values of security.protocol, in any case.
var SecurityProtocols = []string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}

// security reads security.protocol and what belongs to it: certificates as PEM (ssl.truststore.type and ssl.keystore.type), and user and password out of
// sasl.jaas.config.
func security(p Properties, value string) ([]kgo.Opt, error) {
	protocol := strings.ToUpper(value)
	var options []kgo.Opt
	switch protocol {
	case "PLAINTEXT", "SASL_PLAINTEXT":
	case "SSL", "SASL_SSL":
		c, err := p.tls()
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.DialTLSConfig(c))
	default:
		return nil, fmt.Errorf("not among %s", strings.Join(SecurityProtocols, ", "))
	}
	if !strings.HasPrefix(protocol, "SASL_") {
		return options, nil
	}
	mechanism, err := p.sasl()
	if err != nil {
		return nil, err
	}
	return append(options, mechanism), nil
}

// pem is what is given directly, or in a file, of a store.
func (p Properties) pem(direct, store string) ([]byte, error) {
	if text := p[direct]; text != "" {
		return []byte(text), nil
	}
	file := p[store+".location"]
	if file == "" {
		return nil, nil
	}
	if t := p[store+".type"]; !strings.EqualFold(t, "PEM") {
		return nil, fmt.Errorf("%s.type=%s: only PEM can be read", store, t)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s.location: %w", store, err)
	}
	return text, nil
}

func (p Properties) tls() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	trusted, err := p.pem("ssl.truststore.certificates", "ssl.truststore")
	if err != nil {
		return nil, err
	}
	if trusted != nil {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(trusted) {
			return nil, errors.New("ssl.truststore has no certificate in PEM")
		}
	}
	chain, err := p.pem("ssl.keystore.certificate.chain", "ssl.keystore")
	if err != nil {
		return nil, err
	}
	if chain != nil {
		key := chain
		if text := p["ssl.keystore.key"]; text != "" {
			key = []byte(text)
		}
		own, err := tls.X509KeyPair(chain, key)
		if err != nil {
			return nil, fmt.Errorf("ssl.keystore: %w", err)
		}
		c.Certificates = []tls.Certificate{own}
	}
	if algorithm, given := p["ssl.endpoint.identification.algorithm"]; given && strings.TrimSpace(algorithm) == "" {
		// What the user asks for: any name, but still a certificate that is trusted.
		roots := c.RootCAs
		c.InsecureSkipVerify = true
		c.VerifyConnection = func(s tls.ConnectionState) error {
			o := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
			for _, one := range s.PeerCertificates[1:] {
				o.Intermediates.AddCert(one)
			}
			_, err := s.PeerCertificates[0].Verify(o)
			return err
		}
	}
	return c, nil
}

// sasl is the mechanism that sasl.mechanism names, for the user of sasl.jaas.config.
func (p Properties) sasl() (kgo.Opt, error) {
	options, err := jaas(p["sasl.jaas.config"])
	if err != nil {
		return nil, fmt.Errorf("sasl.jaas.config: %w", err)
	}
	user, password := options["username"], options["password"]
	if user == "" {
		return nil, errors.New("sasl.jaas.config has no username")
	}
	switch mechanism := strings.ToUpper(p["sasl.mechanism"]); mechanism {
	case "PLAIN":
		return kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism()), nil
	case "SCRAM-SHA-256":
		return kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha256Mechanism()), nil
	case "SCRAM-SHA-512":
		return kgo.SASL(scram.Auth{User: user, Pass: password}.AsSha512Mechanism()), nil
	default:
		return nil, fmt.Errorf("sasl.mechanism=%s is not among PLAIN, SCRAM-SHA-256, SCRAM-SHA-512", mechanism)
	}
}
