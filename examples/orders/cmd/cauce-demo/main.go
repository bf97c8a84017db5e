// Command cauce-demo runs one service of the example pipeline: shop, billing or warehouse.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/cauce-stream/cauce/examples/orders"
)

const stopsWithin = 5 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		slog.Error("ended", "error", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	hostname, err := os.Hostname()
	if err != nil {
		return err
	}
	flags := flag.NewFlagSet("cauce-demo shop|billing|warehouse", flag.ContinueOnError)
	var (
		bootstrap = flags.String("bootstrap", "127.0.0.1:9092", "`HOST:PORT,…` of some brokers, of billing and warehouse")
		database  = flags.String("database", "postgres://postgres@127.0.0.1/shop", "`URL` of the database, of the shop")
		rate      = flags.Float64("rate", 5, "`ORDERS` per second, of the shop")
		pause     = flags.Duration("pause", 5*time.Millisecond, "`TIME` that a warehouse takes for an invoice")
		instance  = flags.String("instance", hostname, "`NAME` that tells a billing process from others")
	)
	if len(args) == 0 {
		flags.Usage()
		return errors.New("no service is named")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if args[0] == "shop" {
		if *rate <= 0 {
			return fmt.Errorf("a rate of %v orders per second", *rate)
		}
		return orders.Shop(ctx, *database, *rate)
	}
	config, stop, err := orders.New(ctx, args[0], strings.Split(*bootstrap, ","))
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopsWithin)
		defer cancel()
		err = errors.Join(err, stop(ctx))
	}()
	switch args[0] {
	case "billing":
		return orders.Billing(ctx, config, *instance)
	case "warehouse":
		return orders.Warehouse(ctx, config, *pause)
	}
	return fmt.Errorf("there is no service %q", args[0])
}
