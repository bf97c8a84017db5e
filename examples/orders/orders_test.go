package orders

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
)

func TestBill(t *testing.T) {
	good := `{"id":"7","customer":"ana","item":"tea","quantity":3,"priceCents":250}`
	invoice, err := bill([]byte(good))
	if want := (Invoice{Order: "7", Customer: "ana", Item: "tea", Quantity: 3, TotalCents: 750}); err != nil || invoice != want {
		t.Errorf("%+v, %v, want %+v", invoice, err, want)
	}
	for _, bad := range []string{"", "tea", `[]`, `{"id":"7"}`, `{"id":"7","customer":"ana","quantity":0}`, `{"id":"7","customer":"ana","quantity":1,"priceCents":-1}`} {
		if invoice, err := bill([]byte(bad)); err == nil {
			t.Errorf("%q is billed: %+v", bad, invoice)
		}
	}
}

// TestOrdersCanBeBilled holds the shop to what billing takes, but for the share that it spoils.
func TestOrdersCanBeBilled(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	rejected := 0
	for n := range 1000 {
		key, value := newOrder(random, n)
		if len(key) == 0 {
			t.Fatalf("order %d has no key", n)
		}
		if _, err := bill(value); err == nil {
			continue
		}
		rejected++
		if json.Valid(value) {
			t.Errorf("%s is rejected", value)
		}
	}
	if rejected != 10 {
		t.Errorf("%d of 1000 orders are spoilt, want every hundredth", rejected)
	}
}
