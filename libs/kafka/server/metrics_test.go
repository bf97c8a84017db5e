package server

import (
	"math"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestHistogramQuantiles(t *testing.T) {
	var h histogram
	before := *h.counts()
	for v := range int64(100_000) {
		h.record(v)
	}
	for i, got := range h.counts().quantiles(&before, 100_000, quantileShares) {
		want := quantileShares[i] * 100_000
		if got < want-1 || got > want*1.26 {
			t.Errorf("quantile %v: %v", quantileShares[i], got)
		}
	}
	mostlyZero := h.counts().quantiles(&before, 10_000_000, []float64{0.5, 0.999})
	if mostlyZero[0] != 0 || mostlyZero[1] < 89_000 {
		t.Errorf("with zeros: %v", mostlyZero)
	}
	for _, v := range []uint64{0, 1, 3, 4, 5, 7, 8, 9, 1000, 1 << 30, math.MaxUint64} {
		i := bucketOf(v)
		if i < histogramSlots-1 && (v > bucketTop(i) || i > 0 && v <= bucketTop(i-1)) {
			t.Errorf("%d falls into bucket %d, up to %d", v, i, bucketTop(i))
		}
	}
}

// gathered finds a metric by name and labels.
func gathered(t *testing.T, reg *prometheus.Registry, name string, labels ...string) *dto.Metric {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.Metric {
			var have []string
			for _, l := range m.Label {
				have = append(have, l.GetName()+"="+l.GetValue())
			}
			if strings.Join(have, ",") == strings.Join(labels, ",") {
				return m
			}
		}
	}
	return nil
}

func TestRequestMetrics(t *testing.T) {
	r := start(t, Config{}, Deps{}, echoMetadata(true), API{Key: 1, MinVersion: 4, MaxVersion: 12, Inline: true, Handle: func(r *Request) {
		if r.CorrelationID == 1 {
			r.CountAsFollower()
		}
		r.Reply(kmsg.NewPtrFetchResponse())
	}})
	c := r.dial()
	for id := range int32(3) {
		c.send(request(kmsg.NewPtrFetchRequest(), 12, id))
		c.correlation()
	}
	c.send(request(metadataRequest(), 9, 1))
	c.correlation()
	const prefix = "kafka_network_requestmetrics_"
	eventually(t, "all counted", func() bool { return gathered(t, r.reg, prefix+"totaltimems", "request=Metadata") != nil })
	for name, want := range map[string]uint64{"Fetch": 3, "FetchFollower": 1, "FetchConsumer": 2, "Metadata": 1} {
		m := gathered(t, r.reg, prefix+"totaltimems", "request="+name)
		if m == nil || m.Summary.GetSampleCount() != want || m.Summary.GetSampleSum() <= 0 {
			t.Errorf("%s: %v", name, m)
		}
		if m := gathered(t, r.reg, prefix+"requestbytes", "request="+name); m == nil || m.Summary.Quantile[0].GetValue() < 10 {
			t.Errorf("%s bytes: %v", name, m)
		}
	}
	if m := gathered(t, r.reg, prefix+"requests_total", "request=Fetch", "version=12"); m.GetCounter().GetValue() != 3 {
		t.Errorf("by version: %v", m)
	}
	if m := gathered(t, r.reg, "kafka_server_socket_server_metrics_connection_count", "listener=PLAINTEXT"); m.GetGauge().GetValue() != 1 {
		t.Errorf("connections: %v", m)
	}
	New(Config{}, Deps{Router: NewRouter(), Log: r.server.log, Metrics: r.reg}) // a second listener shares them
}
