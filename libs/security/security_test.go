package security

import "testing"

func TestPrincipal(t *testing.T) {
	for text, want := range map[string]Principal{
		"User:alice":        {"User", "alice"},
		"User:CN=a,OU=b:c":  {"User", "CN=a,OU=b:c"},
		"User:ANONYMOUS":    Anonymous,
		"ServiceAccount:42": {"ServiceAccount", "42"},
		"Node:7":            Node(7),
	} {
		got, err := ParsePrincipal(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
		if got.IsNode() != (text == "Node:7") {
			t.Errorf("%q is a node: %v", text, got.IsNode())
		}
	}
	for _, text := range []string{"", "alice", ":alice", "User:"} {
		if p, err := ParsePrincipal(text); err == nil {
			t.Errorf("%q: %+v", text, p)
		}
	}
}

func TestProtocol(t *testing.T) {
	for id, name := range []string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"} {
		p, err := ParseProtocol(name)
		if err != nil || int(p) != id || p.String() != name {
			t.Errorf("%s: %d, %v", name, p, err)
		}
	}
	if p, err := ParseProtocol("sasl_ssl"); err != nil || p != SASLSSL {
		t.Errorf("lower case: %v, %v", p, err)
	}
	if p, err := ParseProtocol("TLS"); err == nil {
		t.Errorf("TLS is taken for %v", p)
	}
	if got := Protocol(9).String(); got != "Protocol(9)" {
		t.Error(got)
	}
}
