package lag

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/judgement"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/offsets"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/shard"
)

// scraped are the series of a collector, a line each, in order.
func scraped(t *testing.T, c prometheus.Collector) []string {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, f := range families {
		for _, m := range f.Metric {
			line := f.GetName()
			for _, l := range m.Label {
				line += " " + l.GetValue()
			}
			lines = append(lines, fmt.Sprint(line, " = ", m.GetGauge().GetValue()))
		}
	}
	slices.Sort(lines)
	return lines
}

// TestWatch looks at two groups for as often as a judgement takes, at a broker where nothing happens.
func TestWatch(t *testing.T) {
	host, port := broker(t)
	im := image(t, metadata.TopicID{1}, []metadata.Node{node(1, host, port)}, 1, 1, 1, 1)
	meter := New("", "test", func() *metadata.Image { return im })
	defer meter.Close()
	groups := []shard.Standing{
		{Group: "app", Members: 2, Generation: 1, Committed: []offsets.Committed{
			{Topic: "orders", Partition: 0, Offset: 90}, {Topic: "orders", Partition: 1, Offset: 1040}, {Topic: "orders", Partition: 2, Offset: 2100},
			{Topic: "orders", Partition: 3, Offset: 5}, {Topic: "orders", Partition: 9, Offset: 5}, {Topic: "gone", Partition: 0, Offset: 5}}},
		{Group: "well", Committed: []offsets.Committed{{Topic: "orders", Partition: 0, Offset: 100}}},
		{Group: "no\xffletters"},
		{Group: "loop", Members: 1},
		{Group: "workers", Members: 2, NoConsumers: true},
	}
	w := NewWatch(WatchConfig{Every: time.Second, Most: 12}, WatchDeps{
		Meter: meter, Image: func() *metadata.Image { return im }, Log: zap.NewNop(),
		Survey: func(room int) ([]shard.Standing, int) { return groups, room - 5 },
	})
	if got := scraped(t, w); len(got) != 1 {
		t.Errorf("before the first look: %q", got)
	}
	var book judgement.Book
	for range 10 {
		groups[3].Generation++
		groups[4].Generation++
		w.latest.Store(w.look(t.Context(), &book))
	}
	got := slices.DeleteFunc(scraped(t, w), func(line string) bool { return strings.HasPrefix(line, "kafka_consumergroup_lag_seconds") })
	want := []string{
		"cauce_consumergroup_lag_trend app 0 orders = 0",
		"cauce_consumergroup_lag_trend app 1 orders = 0",
		"cauce_consumergroup_lag_trend app 2 orders = 0",
		"cauce_consumergroup_lag_trend well 0 orders = 0",
		"cauce_consumergroup_partition_status app 0 HUNG_TXN orders = 1",
		"cauce_consumergroup_partition_status app 1 WARNING orders = 1",
		"cauce_consumergroup_partition_status app 2 OK orders = 1",
		"cauce_consumergroup_partition_status well 0 OK orders = 1",
		"cauce_consumergroup_status app HUNG_TXN = 1",
		"cauce_consumergroup_status loop REBALANCE_LOOP = 1",
		"cauce_consumergroup_status well OK = 1",
		"cauce_consumergroup_status workers OK = 1",
		"cauce_consumergroup_unwatched = 7",
		"kafka_consumergroup_current_offset app 0 gone = 5",
		"kafka_consumergroup_current_offset app 0 orders = 90",
		"kafka_consumergroup_current_offset app 1 orders = 1040",
		"kafka_consumergroup_current_offset app 2 orders = 2100",
		"kafka_consumergroup_current_offset app 3 orders = 5",
		"kafka_consumergroup_current_offset app 9 orders = 5",
		"kafka_consumergroup_current_offset well 0 orders = 100",
		"kafka_consumergroup_lag app 0 orders = 10",
		"kafka_consumergroup_lag app 1 orders = 60",
		"kafka_consumergroup_lag app 2 orders = 0",
		"kafka_consumergroup_lag well 0 orders = 0",
		"kafka_consumergroup_members app = 2",
		"kafka_consumergroup_members loop = 1",
		"kafka_consumergroup_members well = 0",
		"kafka_consumergroup_members workers = 2",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestWatchLooksByItself until it is closed, and never without an interval.
func TestWatchLooksByItself(t *testing.T) {
	looked := make(chan bool, 1)
	deps := WatchDeps{
		Meter: New("", "test", metadata.Empty), Image: metadata.Empty, Log: zap.NewNop(),
		Survey: func(int) ([]shard.Standing, int) {
			select {
			case looked <- true:
			default:
			}
			return nil, 0
		},
	}
	defer deps.Meter.Close()
	never := NewWatch(WatchConfig{}, deps)
	never.Start()
	never.Close()
	w := NewWatch(WatchConfig{Every: time.Millisecond}, deps)
	w.Start()
	<-looked
	<-looked
	w.Close()
}
