// Command groups puts the load of many consumer groups on a server: members that are nothing but their requests, over a few
// hundred connections, heartbeat and commit at a fixed rate. It prints how long the answers took, counted from when a request
// was due, and the processor time of the server.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

// options are the load's.
type options struct {
	bootstrap   string
	pid         int
	protocol    string
	groups      int
	members     int
	connections int
	partitions  int
	heartbeat   time.Duration
	commit      time.Duration
	duration    time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.bootstrap, "bootstrap", "127.0.0.1:9092", "HOST:PORT of the server")
	flag.IntVar(&o.pid, "pid", 0, "process id of the server, whose processor time is read")
	flag.StringVar(&o.protocol, "protocol", "classic", "classic or consumer")
	flag.IntVar(&o.groups, "groups", 1000, "number of groups")
	flag.IntVar(&o.members, "members", 10, "members of each group")
	flag.IntVar(&o.connections, "connections", 200, "connections that the members share; a multiple of -members for the classic protocol")
	flag.IntVar(&o.partitions, "partitions", 10, "partitions of the topic that all groups read")
	flag.DurationVar(&o.heartbeat, "heartbeat", 3*time.Second, "time between two heartbeats of a member")
	flag.DurationVar(&o.commit, "commit", 5*time.Second, "time between two commits of a member")
	flag.DurationVar(&o.duration, "duration", 30*time.Second, "how long is measured")
	join := flag.Bool("join", false, "measure instead how long the last member of one group of the consumer protocol waits for its target")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	run := o.load
	if *join {
		run = o.join
	}
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "groups:", err)
		os.Exit(1)
	}
}

// check refuses what would deadlock: members of a group that share a connection, on which answers keep their order.
func (o *options) check() error {
	switch {
	case o.protocol != "classic" && o.protocol != "consumer":
		return fmt.Errorf("-protocol %q is neither classic nor consumer", o.protocol)
	case min(o.groups, o.members, o.connections, o.partitions) < 1:
		return fmt.Errorf("-groups, -members, -connections and -partitions must be at least 1")
	case o.protocol == "classic" && o.connections%o.members != 0:
		return fmt.Errorf("-connections %d is no multiple of -members %d", o.connections, o.members)
	case o.heartbeat <= 0 || o.commit <= 0 || o.duration <= 0:
		return fmt.Errorf("-heartbeat, -commit and -duration must be longer than 0")
	}
	return nil
}
