package natsio

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
)

// trusted is a server that lets in whom an operator has let in, and the credentials of one.
func trusted(t *testing.T) (n *node, credentials string) {
	t.Helper()
	pair := func(prefix nkeys.PrefixByte) (nkeys.KeyPair, string) {
		keys, err := nkeys.CreatePair(prefix)
		if err != nil {
			t.Fatal(err)
		}
		public, err := keys.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		return keys, public
	}
	operatorKeys, operatorID := pair(nkeys.PrefixByteOperator)
	accountKeys, accountID := pair(nkeys.PrefixByteAccount)
	userKeys, userID := pair(nkeys.PrefixByteUser)
	account, err := jwt.NewAccountClaims(accountID).Encode(operatorKeys)
	if err != nil {
		t.Fatal(err)
	}
	user, err := jwt.NewUserClaims(userID).Encode(accountKeys)
	if err != nil {
		t.Fatal(err)
	}
	seed, err := userKeys.Seed()
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.FormatUserConfig(user, seed)
	if err != nil {
		t.Fatal(err)
	}
	resolver := &server.MemAccResolver{}
	if err := resolver.Store(accountID, account); err != nil {
		t.Fatal(err)
	}
	n = start(t, func(o *server.Options) {
		o.JetStream, o.AccountResolver, o.TrustedOperators = false, resolver, []*jwt.OperatorClaims{jwt.NewOperatorClaims(operatorID)}
	})
	return n, string(text)
}

func TestCredentials(t *testing.T) {
	n, credentials := trusted(t)
	file := filepath.Join(t.TempDir(), "user.creds")
	if err := os.WriteFile(file, []byte(credentials), 0o600); err != nil {
		t.Fatal(err)
	}
	plain := map[string]string{"subject": "x", "jetstream.enabled": "false"}
	for key, value := range map[string]string{"nats.creds": credentials, "nats.creds.file": file} {
		if _, err := put(t, n.sink(pairs(plain, []string{key, value}), false), records(0, 0, "a")); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	if _, err := put(t, n.sink(plain, false), records(0, 0, "a")); err == nil || !strings.Contains(err.Error(), "Authorization") {
		t.Errorf("without: %v", err)
	}
	n = start(t, func(o *server.Options) { o.JetStream, o.Authorization = false, "secret" })
	if _, err := put(t, n.sink(pairs(plain, []string{"nats.token", "secret"}), false), records(0, 0, "a")); err != nil {
		t.Errorf("a token: %v", err)
	}
}
