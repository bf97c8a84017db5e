// Command unclean has the only replica die that has the newest records, and elects one that lacks them: it shows what is refused
// before, what is lost, and where that is said. It runs a cluster of its own.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/cauce-stream/cauce/tests/lab/internal/numbered"
)

const (
	topic = "lab-unclean"
	// metric counts unclean elections, as Kafka's of JMX name does.
	metric = "kafka_controller_controllerstats_uncleanleaderelections_total"
	// offlineFor is how long the partition is seen to stay without a leader.
	offlineFor = 5 * time.Second
)

func main() {
	shared := flag.Int("shared", 1000, "records that all replicas have")
	alone := flag.Int("alone", 1000, "records that the last leader has alone")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *shared, *alone)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "unclean:", err)
		os.Exit(1)
	}
}

// lab is the experiment under way.
type lab struct {
	*numbered.Cluster
	shared, alone int
	began         time.Time
}

func (l *lab) say(format string, args ...any) {
	fmt.Printf("%5.1f s  %s\n", time.Since(l.began).Seconds(), fmt.Sprintf(format, args...))
}

func run(ctx context.Context, shared, alone int) error {
	c, down, err := numbered.Up(ctx)
	if err != nil {
		return err
	}
	defer down()
	l := &lab{Cluster: c, shared: shared, alone: alone, began: time.Now()}
	leader, followers, err := l.writeAlone(ctx)
	if err != nil {
		return err
	}
	if err := l.goOffline(ctx, leader, followers[0]); err != nil {
		return err
	}
	if err := l.allowUnclean(ctx, followers[0]); err != nil {
		return err
	}
	return l.comeBack(ctx, leader, followers)
}

// writeAlone has all replicas get the first records, and the leader the rest after its followers died.
func (l *lab) writeAlone(ctx context.Context) (leader int32, followers []int32, err error) {
	if err := l.CreateTopic(ctx, topic, 1, map[string]string{"min.insync.replicas": "1"}); err != nil {
		return 0, nil, err
	}
	if err := l.write(ctx, 0, l.shared); err != nil {
		return 0, nil, err
	}
	p, err := l.Leader(ctx, topic)
	if err != nil {
		return 0, nil, err
	}
	followers = slices.DeleteFunc(slices.Clone(p.Replicas), func(id int32) bool { return id == p.Leader })
	l.say("%d records are on nodes %v; node %d leads", l.shared, p.Replicas, p.Leader)
	if err := l.On(ctx, "kill", followers...); err != nil {
		return 0, nil, err
	}
	if err := l.InSync(ctx, topic, 1); err != nil {
		return 0, nil, err
	}
	if err := l.write(ctx, l.shared, l.shared+l.alone); err != nil {
		return 0, nil, err
	}
	l.say("nodes %v were killed; %d more records are acknowledged, acks=all, by node %d alone", followers, l.alone, p.Leader)
	return p.Leader, followers, nil
}

func (l *lab) write(ctx context.Context, from, end int) error {
	cl, err := l.Producer(topic, kgo.RequiredAcks(kgo.AllISRAcks()))
	if err != nil {
		return err
	}
	defer cl.Close()
	var records []*kgo.Record
	for n := from; n < end; n++ {
		records = append(records, numbered.Record(n))
	}
	return cl.ProduceSync(ctx, records...).FirstErr()
}

// goOffline kills the leader and starts a follower, which must not lead.
func (l *lab) goOffline(ctx context.Context, leader, follower int32) error {
	if err := l.On(ctx, "kill", leader); err != nil {
		return err
	}
	if err := l.On(ctx, "start", follower); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, offlineFor)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	offline := false
	for {
		p, err := l.Partition(ctx, topic)
		if err == nil && p.Leader == follower {
			return fmt.Errorf("node %d, which lacks acknowledged records, leads without anybody's having allowed it", follower)
		}
		offline = offline || err == nil && p.Leader < 0
		select {
		case <-ticker.C:
			continue
		case <-ctx.Done():
		}
		if !offline {
			return fmt.Errorf("the partition was not seen without a leader: %w", err)
		}
		l.say("node %d was killed, node %d is back: for %v nobody leads, and nothing is lost yet", leader, follower, offlineFor)
		return nil
	}
}

// allowUnclean sets the topic's config, and looks what that costs.
func (l *lab) allowUnclean(ctx context.Context, follower int32) error {
	before, err := l.counted(ctx)
	if err != nil {
		return err
	}
	set := time.Now()
	if err := l.setUnclean(ctx, kadm.SetConfig, "true"); err != nil {
		return err
	}
	err = numbered.Await(ctx, "the follower leads", func(ctx context.Context) error {
		p, err := l.Partition(ctx, topic)
		if err == nil && p.Leader != follower {
			err = fmt.Errorf("node %d does", p.Leader)
		}
		return err
	})
	if err != nil {
		return err
	}
	l.say("unclean.leader.election.enable=true: node %d leads after %v", follower, time.Since(set).Round(time.Millisecond))
	times, err := l.Read(ctx, topic)
	if err != nil {
		return err
	}
	lost := 0
	for n := range l.shared + l.alone {
		if times[n] == 0 {
			lost++
		}
		if kept := n < l.shared; kept != (times[n] == 1) {
			return fmt.Errorf("record %d is there %d times", n, times[n])
		}
	}
	l.say("%d of %d acknowledged records are lost: exactly those that node %d never had", lost, l.shared+l.alone, follower)
	after, err := l.counted(ctx)
	if err != nil {
		return err
	}
	if after-before != 1 {
		return fmt.Errorf("%s went from %d to %d over one election", metric, before, after)
	}
	l.say("%s went from %d to %d", metric, before, after)
	return l.showLog(ctx, "controller", "unclean election")
}

func (l *lab) setUnclean(ctx context.Context, op kadm.IncrementalOp, value string) error {
	answers, err := l.Admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: op, Name: "unclean.leader.election.enable", Value: &value}}, topic)
	for _, a := range answers {
		err = cmp.Or(err, a.Err)
	}
	return err
}

// comeBack starts the nodes that are down: the old leader has to give up what nobody else knows any more.
func (l *lab) comeBack(ctx context.Context, leader int32, followers []int32) error {
	if err := l.setUnclean(ctx, kadm.DeleteConfig, ""); err != nil {
		return err
	}
	if err := l.On(ctx, "start", leader, followers[1]); err != nil {
		return err
	}
	if err := l.InSync(ctx, topic, 3); err != nil {
		return err
	}
	times, err := l.Read(ctx, topic)
	if err != nil {
		return err
	}
	if len(times) != l.shared {
		return fmt.Errorf("%d records are there in the end", len(times))
	}
	l.say("the config is unset, nodes %d and %d are back and in sync, with %d records", leader, followers[1], len(times))
	return l.showLog(ctx, "broker", "log diverged")
}

// counted adds up what the controllers' metrics say.
func (l *lab) counted(ctx context.Context) (total int, err error) {
	nodes, err := l.Of(ctx, "controller")
	if err != nil {
		return 0, err
	}
	for _, n := range nodes {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.Admin+"/metrics", nil)
		if err != nil {
			return 0, err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return 0, err
		}
		text, err := io.ReadAll(response.Body)
		if err = cmp.Or(err, response.Body.Close()); err != nil {
			return 0, err
		}
		for line := range strings.Lines(string(text)) {
			value := 0
			if _, err := fmt.Sscanf(line, metric+" %d", &value); err == nil {
				total += value
			}
		}
	}
	return total, nil
}

// showLog prints the lines of the logs of a role that have a text. There must be one.
func (l *lab) showLog(ctx context.Context, role, text string) error {
	nodes, err := l.Of(ctx, role)
	if err != nil {
		return err
	}
	found := false
	for _, n := range nodes {
		lines, err := l.Logged(ctx, n.ID, text)
		if err != nil {
			return err
		}
		for line := range strings.Lines(lines) {
			found = true
			l.say("node %d's log: %s", n.ID, strings.TrimSpace(line))
		}
	}
	if !found {
		return fmt.Errorf("no %s's log has %q", role, text)
	}
	return nil
}
