package clientconfig

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestMetadataMayBeYoung has a client take ages of metadata that are below its own least one.
func TestMetadataMayBeYoung(t *testing.T) {
	for _, age := range []string{"0", "1000", "4999", "300000"} {
		options, err := Properties{"metadata.max.age.ms": age}.Common()
		if err != nil {
			t.Fatal(err)
		}
		client, err := kgo.NewClient(options...)
		if err != nil {
			t.Errorf("metadata.max.age.ms=%s: %v", age, err)
			continue
		}
		client.Close()
	}
}
