package orders

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
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

// TestOrdersCanBeBilled holds the shop to what billing takes, and the table of invoices, but for the shares that it spoils.
func TestOrdersCanBeBilled(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	rejected, tooLarge := 0, 0
	for n := range 1000 {
		order := newOrder(random, n)
		order.ID = fmt.Sprint(n) // as the database does
		value, err := json.Marshal(order)
		if err != nil {
			t.Fatal(err)
		}
		invoice, err := bill(value)
		switch {
		case err != nil:
			rejected++
		case invoice.TotalCents > math.MaxInt32:
			tooLarge++
		}
	}
	if rejected != 10 || tooLarge != 10 {
		t.Errorf("of 1000 orders %d are rejected and %d are too large for the table, want every hundredth", rejected, tooLarge)
	}
}

// TestShopIsToldOfItsDatabase holds a URL that is none to an error, before any order.
func TestShopIsToldOfItsDatabase(t *testing.T) {
	if err := Shop(t.Context(), "postgres://shop:shop@db:none/shop", 1); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("the error is %v", err)
	}
}
