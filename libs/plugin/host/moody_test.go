package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/cauce-stream/cauce/libs/plugin"
	"github.com/cauce-stream/cauce/libs/plugin/configdef"
	"github.com/cauce-stream/cauce/libs/plugin/data"
)

// moody are connectors of the test program that do what the key mood says.
type moody struct{}

func (moody) Definition() configdef.Definition {
	return configdef.Definition{{Name: "mood", Type: configdef.String, Default: new("good"), Importance: configdef.High, Doc: "what to do"}}
}

func (moody) TaskConfigs(ctx context.Context, config map[string]string, _ int) ([]map[string]string, error) {
	if pipe := config["pipe"]; pipe != "" {
		if err := waitForFile(ctx, pipe); err != nil {
			return nil, err
		}
	}
	fall(config["mood"])
	return []map[string]string{config}, nil
}

// fall ends the process, or the machine's patience.
func fall(mood string) {
	switch mood {
	case "exit":
		fmt.Fprintln(os.Stderr, "out of luck")
		os.Exit(3)
	case "hang":
		select {}
	case "panic":
		panic("index out of range")
	}
}

type moodySource struct{ moody }

func (moodySource) Info() plugin.Info {
	return plugin.Info{Name: "moody-source", Version: "2", Doc: "reads moods", Aliases: []string{"org.example.MoodySourceConnector"}}
}

func (moodySource) NewSourceTask() plugin.SourceTask { return &moodySourceTask{} }

func (moodySource) Watch(ctx context.Context, config map[string]string, changed func()) error {
	changed()
	fall(config["mood"])
	<-ctx.Done()
	return ctx.Err()
}

// moodySourceTask sends its process id, and then what its configuration wants.
type moodySourceTask struct {
	mood    string
	polls   int
	records []plugin.SourceRecord
	kept    []byte
}

func (t *moodySourceTask) Start(_ context.Context, _ *plugin.SourceContext, config map[string]string) error {
	t.mood = config["mood"]
	switch t.mood {
	case "refuse":
		return errors.New("not today")
	case "exit-early":
		fall("exit")
	}
	count, _ := strconv.Atoi(config["records"])
	size, _ := strconv.Atoi(config["bytes"])
	for range count {
		t.records = append(t.records, plugin.SourceRecord{Record: data.NewRecord("moods", data.Value{}, data.Value{V: []byte(strings.Repeat("x", size))})})
	}
	return nil
}

func (t *moodySourceTask) Poll(ctx context.Context) ([]plugin.SourceRecord, error) {
	t.polls++
	switch {
	case t.polls == 1:
		return []plugin.SourceRecord{{Record: data.NewRecord("moods", data.Value{}, data.Value{V: int64(os.Getpid())})}}, nil
	case t.records != nil:
		return t.records, nil
	case t.mood == "wide":
		t.mood = "good"
		return []plugin.SourceRecord{{Record: data.NewRecord("moods", data.Value{}, data.Value{V: int64(runtime.GOMAXPROCS(0))})}}, nil
	case t.mood == "hungry":
		t.kept = make([]byte, 100<<20)
		for i := range t.kept {
			t.kept[i] = 1
		}
	case t.mood != "good":
		fall(t.mood)
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

func (*moodySourceTask) Stop() error { return nil }

type moodySink struct{ moody }

func (moodySink) Info() plugin.Info {
	return plugin.Info{Name: "moody-sink", Version: "2", Aliases: []string{"org.example.MoodySink"}}
}

func (moodySink) NewSinkTask() plugin.SinkTask { return moodySinkTask{} }

type moodySinkTask struct{}

func (moodySinkTask) Start(context.Context, *plugin.SinkContext, map[string]string) error { return nil }

func (moodySinkTask) Put(_ context.Context, records []plugin.SinkRecord) error {
	for i := range records {
		if mood, ok := records[i].Value.V.(string); ok {
			fall(mood)
		}
	}
	return nil
}

func (moodySinkTask) Stop() error { return nil }
