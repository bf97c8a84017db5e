package tlsfiles

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"maps"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// certificate writes one for this host, which is its own authority, and its key.
func certificate(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	text, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	certFile, keyFile = filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	for path, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: text}, keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

func load(t *testing.T, config map[string]string) (*tls.Config, error) {
	t.Helper()
	v, err := Keys.Parse(config)
	if err != nil {
		t.Fatal(err)
	}
	return Load(v)
}

// TestBothShowTheirCertificates has a server that wants one of its clients.
func TestBothShowTheirCertificates(t *testing.T) {
	cert, key := certificate(t)
	own, err := load(t, map[string]string{"tls.ca.file": cert, "tls.cert.file": cert, "tls.key.file": key})
	if err != nil {
		t.Fatal(err)
	}
	server := own.Clone()
	server.ClientAuth, server.ClientCAs = tls.RequireAndVerifyClientCert, own.RootCAs
	listener, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		for range 2 {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("hello")) // fails where the client has no certificate
			_ = c.Close()
		}
	}()
	alone, err := load(t, map[string]string{"tls.ca.file": cert})
	if err != nil {
		t.Fatal(err)
	}
	for config, want := range map[*tls.Config]bool{own: true, alone: false} {
		c, err := tls.Dial("tcp", listener.Addr().String(), config)
		if err == nil {
			_, err = c.Read(make([]byte, 5))
			_ = c.Close()
		}
		if (err == nil) != want {
			t.Errorf("with a certificate %t: %v", want, err)
		}
	}
	<-answered
}

func TestFilesThatAreWrong(t *testing.T) {
	if config, err := load(t, nil); config != nil || err != nil {
		t.Errorf("without files: %v, %v", config, err)
	}
	cert, key := certificate(t)
	right := map[string]string{"tls.ca.file": cert, "tls.cert.file": cert, "tls.key.file": key}
	for _, test := range []struct{ key, path, want string }{
		{"tls.ca.file", filepath.Join(t.TempDir(), "none"), "no such file"}, {"tls.ca.file", key, "no certificate in PEM form"},
		{"tls.cert.file", key, "tls.cert.file and tls.key.file"}, {"tls.key.file", cert, "tls.cert.file and tls.key.file"}, {"tls.key.file", "", "belong together"},
	} {
		config := maps.Clone(right)
		if config[test.key] = test.path; test.path == "" {
			delete(config, test.key)
		}
		if _, err := load(t, config); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s=%s: %v", test.key, test.path, err)
		}
	}
}
