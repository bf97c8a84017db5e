package orders

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

var (
	customers = []string{"ana", "leo", "mia", "noa", "pau", "sol", "teo", "zoe"}
	items     = []string{"coffee", "tea", "bread", "honey", "cheese"}
)

const (
	// spoilt is how many orders come to one that billing rejects, and to another that is too much for the table of invoices.
	spoilt = 100
	// tooMany of anything cost more cents than the table's integer holds.
	tooMany = 100_000_000
	// answersWithin is how long the database may take for a row.
	answersWithin = 10 * time.Second
	// againAfter is how long the shop is closed when its database is away.
	againAfter = time.Second
)

const addOrder = "INSERT INTO orders (customer, item, quantity, price_cents) VALUES ($1, $2, $3, $4)"

// Shop adds perSecond rows to the table orders of a database until ctx ends.
func Shop(ctx context.Context, database string, perSecond float64) error {
	config, err := pgconn.ParseConfig(database)
	if err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	ticker := time.NewTicker(time.Duration(float64(time.Second) / perSecond))
	defer ticker.Stop()
	for n := 1; ; {
		n, err = sell(ctx, config, ticker.C, random, n)
		if ctx.Err() != nil {
			return nil
		}
		slog.Warn("an order was not taken: trying again", "error", err)
		select {
		case <-time.After(againAfter):
		case <-ctx.Done():
			return nil
		}
	}
}

// sell adds the n-th order and those after it, one whenever it is time, until that fails. It returns which is next.
func sell(ctx context.Context, config *pgconn.Config, due <-chan time.Time, random *rand.Rand, n int) (next int, err error) {
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return n, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answersWithin)
		defer cancel()
		err = errors.Join(err, conn.Close(ctx))
	}()
	for ; ; n++ {
		select {
		case <-due:
		case <-ctx.Done():
			return n, ctx.Err()
		}
		if err := add(ctx, conn, newOrder(random, n)); err != nil {
			return n, fmt.Errorf("order %d: %w", n, err)
		}
	}
}

// add brings a row that was begun to its end although ctx has ended.
func add(ctx context.Context, conn *pgconn.PgConn, o Order) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answersWithin)
	defer cancel()
	values := [][]byte{[]byte(o.Customer), []byte(o.Item), strconv.AppendInt(nil, int64(o.Quantity), 10), strconv.AppendInt(nil, int64(o.PriceCents), 10)}
	return conn.ExecParams(ctx, addOrder, values, nil, nil, nil).Read().Err
}

// newOrder invents the n-th order, which the database gives its number.
func newOrder(random *rand.Rand, n int) Order {
	o := Order{
		Customer: customers[random.IntN(len(customers))], Item: items[random.IntN(len(items))],
		Quantity: 1 + random.IntN(5), PriceCents: 100 + random.IntN(900),
	}
	switch n % spoilt {
	case spoilt/2 - 1:
		o.Quantity = 0
	case spoilt - 1:
		o.Quantity = tooMany
	}
	return o
}
