package orders

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	customers = []string{"ana", "leo", "mia", "noa", "pau", "sol", "teo", "zoe"}
	items     = []string{"coffee", "tea", "bread", "honey", "cheese"}
)

// spoilt is how many orders come to one that nobody can read.
const spoilt = 100

// Shop writes perSecond orders until ctx ends.
func Shop(ctx context.Context, c Config, perSecond float64) error {
	if err := createTopics(ctx, c); err != nil {
		return err
	}
	client, err := kgo.NewClient(c.options(kgo.DefaultProduceTopic(Orders))...)
	if err != nil {
		return err
	}
	defer client.Close()
	random := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	ticker := time.NewTicker(time.Duration(float64(time.Second) / perSecond))
	defer ticker.Stop()
	for n := 1; ; n++ {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return flush(ctx, client)
		}
		key, value := newOrder(random, n)
		client.Produce(ctx, &kgo.Record{Key: key, Value: value}, func(r *kgo.Record, err error) {
			if err != nil && ctx.Err() == nil {
				slog.Error("an order was not written", "customer", string(r.Key), "error", err)
			}
		})
	}
}

// newOrder invents the n-th order.
func newOrder(random *rand.Rand, n int) (key, value []byte) {
	o := Order{
		ID: fmt.Sprintf("%d-%04x", n, random.IntN(1<<16)), Customer: customers[random.IntN(len(customers))],
		Item: items[random.IntN(len(items))], Quantity: 1 + random.IntN(5), PriceCents: 100 + random.IntN(900),
	}
	if n%spoilt == spoilt-1 {
		return []byte(o.Customer), []byte("spoilt " + o.ID)
	}
	value, err := json.Marshal(o)
	if err != nil {
		panic(err) // of strings and numbers
	}
	return []byte(o.Customer), value
}

// flush waits for what is under way although ctx has ended.
func flush(ctx context.Context, client *kgo.Client) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endsWithin)
	defer cancel()
	return client.Flush(ctx)
}
