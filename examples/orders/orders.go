// Package orders is an example of a pipeline of services over Cauce, or any other Kafka: a shop writes orders into a table, which a
// connector brings into a topic; billing makes an invoice of each in transactions; warehouses read the invoices in a group, and another
// connector writes them into a table. Clients are instrumented with OpenTelemetry, so that an order is one trace from row to row.
package orders

import (
	"encoding/json"
	"errors"
	"fmt"
)

// The topics of the pipeline, after the services whose data they have.
const (
	Orders   = "shop.orders" // written by the connector that reads the shop's table
	Invoices = "billing.invoices"
	Rejected = "billing.rejected" // orders that cannot be billed, as they came
)

// Order is a row of the shop's table, and what the connector makes of it, keyed by the customer.
type Order struct {
	ID         string `json:"id"`
	Customer   string `json:"customer"`
	Item       string `json:"item"`
	Quantity   int    `json:"quantity"`
	PriceCents int    `json:"priceCents"`
}

// Invoice is what billing makes of an order.
type Invoice struct {
	Order      string `json:"order"`
	Customer   string `json:"customer"`
	Item       string `json:"item"`
	Quantity   int    `json:"quantity"`
	TotalCents int    `json:"totalCents"`
}

// bill makes the invoice of an order. An error says that no try will ever succeed.
func bill(value []byte) (Invoice, error) {
	var o Order
	if err := json.Unmarshal(value, &o); err != nil {
		return Invoice{}, fmt.Errorf("not an order: %w", err)
	}
	switch {
	case o.ID == "" || o.Customer == "":
		return Invoice{}, errors.New("nobody's order")
	case o.Quantity <= 0 || o.PriceCents < 0:
		return Invoice{}, fmt.Errorf("order %s: %d times %d cents is no price", o.ID, o.Quantity, o.PriceCents)
	}
	return Invoice{Order: o.ID, Customer: o.Customer, Item: o.Item, Quantity: o.Quantity, TotalCents: o.Quantity * o.PriceCents}, nil
}
