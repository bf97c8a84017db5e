package configkeys

import "testing"

func TestSchemasAreWellFormed(t *testing.T) {
	if Broker().Len() < 340 || Topic().Len() != 34 {
		t.Errorf("%d broker keys, %d topic keys", Broker().Len(), Topic().Len())
	}
}
