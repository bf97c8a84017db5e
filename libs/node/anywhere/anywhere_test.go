package anywhere

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/metadata"
)

// BL-026: every advertised version of every API answers what kmsg can decode, and nothing else.
func TestEveryAdvertisedVersionAnswers(t *testing.T) {
	f := newFake(t)
	f.forward = func(_ context.Context, key, version int16, body []byte) ([]byte, error) {
		q := kmsg.RequestForKey(key)
		q.SetVersion(version)
		if err := q.ReadFrom(body); err != nil {
			t.Errorf("forwarded %T v%d: %v", q, version, err)
		}
		return q.ResponseKind().AppendTo(nil), nil
	}
	f.allocate = func(context.Context) (int64, int32, error) { return 0, 1000, nil }
	c := serve(t, f)
	// The oldest and newest versions that Apache Kafka 4 serves and kmsg knows.
	want := map[int16][2]int16{
		3: {0, 13}, 10: {0, 6}, 18: {0, 5}, 19: {2, 7}, 20: {1, 6}, 22: {0, 5}, 32: {1, 4}, 35: {1, 5}, 33: {0, 2}, 37: {0, 3}, 43: {0, 2}, 44: {0, 1},
		45: {0, 1}, 46: {0, 0},
		55: {0, 2}, 57: {0, 2}, 60: {0, 2}, 64: {0, 0}, 74: {0, 1}, 75: {0, 0}, 80: {0, 1}, 81: {0, 0},
		8: {2, 10}, 9: {1, 10}, 11: {0, 9}, 12: {0, 4}, 13: {0, 5}, 14: {0, 5}, 15: {0, 6}, 16: {0, 5}, 28: {0, 6}, 42: {0, 3}, 47: {0, 0},
		68: {0, 1}, 69: {0, 1},
		24: {0, 5}, 25: {0, 4}, 26: {0, 5}, 65: {0, 0}, 66: {0, 2},
	}
	q := kmsg.NewPtrApiVersionsRequest()
	q.ClientSoftwareName, q.ClientSoftwareVersion = "test", "1"
	advertised := ask[*kmsg.ApiVersionsResponse](c, q, 4).ApiKeys
	if len(advertised) != len(want) {
		t.Errorf("%d APIs are advertised", len(advertised))
	}
	for _, k := range advertised {
		if got := [2]int16{k.MinVersion, k.MaxVersion}; got != want[k.ApiKey] {
			t.Errorf("%s is advertised as %v", kmsg.NameForKey(k.ApiKey), got)
		}
		for version := k.MinVersion; version <= k.MaxVersion; version++ {
			q := kmsg.RequestForKey(k.ApiKey)
			if q, ok := q.(*kmsg.ApiVersionsRequest); ok {
				q.ClientSoftwareName, q.ClientSoftwareVersion, q.NodeID = "test", "1", -1
			}
			ask[kmsg.Response](c, q, version)
		}
	}
}

// TestNoLogDirs has a node that stores no partitions tell of a directory all the same: Java's clients take none for a lack of authorisation.
func TestNoLogDirs(t *testing.T) {
	c := serve(t, newFake(t))
	for version := int16(1); version <= 5; version++ {
		resp := ask[*kmsg.DescribeLogDirsResponse](c, kmsg.NewPtrDescribeLogDirsRequest(), version)
		if resp.ErrorCode != 0 || len(resp.Dirs) != 1 {
			t.Fatalf("v%d: %+v", version, resp)
		}
		if d := resp.Dirs[0]; d.ErrorCode != 0 || d.Dir != "" || len(d.Topics) != 0 || version >= 4 && (d.TotalBytes != -1 || d.UsableBytes != -1) {
			t.Errorf("v%d: %+v", version, d)
		}
	}
}

func TestForwardedRequestsTravelUnchanged(t *testing.T) {
	f := newFake(t)
	c := serve(t, f)
	create := func(version int16) *kmsg.CreateTopicsRequest {
		q := kmsg.NewPtrCreateTopicsRequest()
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions = "x", 7
		q.Version, q.TimeoutMillis, q.Topics = version, 1000, append(q.Topics, topic)
		return q
	}
	f.forward = func(ctx context.Context, key, version int16, body []byte) ([]byte, error) {
		got := kmsg.NewPtrCreateTopicsRequest()
		got.SetVersion(version)
		if err := got.ReadFrom(body); err != nil || key != 19 || !reflect.DeepEqual(got, create(version)) {
			t.Errorf("key %d v%d: %v, %v", key, version, got, err)
		}
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("no deadline")
		}
		resp := kmsg.NewPtrCreateTopicsResponse()
		resp.SetVersion(version)
		out := kmsg.NewCreateTopicsResponseTopic()
		out.Topic, out.NumPartitions = "x", 7
		resp.Topics = append(resp.Topics, out)
		return resp.AppendTo(nil), nil
	}
	for version := int16(2); version <= 7; version++ {
		resp := ask[*kmsg.CreateTopicsResponse](c, create(version), version)
		if len(resp.Topics) != 1 || resp.Topics[0].Topic != "x" {
			t.Errorf("v%d: %+v", version, resp)
		}
	}
	f.with(func() {
		if f.sender != "User:ANONYMOUS tester 127.0.0.1" {
			t.Errorf("sent as %q", f.sender)
		}
	})
}

// When no controller answers, each thing that a request asks for has the code.
func TestNoControllerAnswers(t *testing.T) {
	f := newFake(t)
	c := serve(t, f)
	requests := map[string]struct {
		request kmsg.Request
		path    func(kmsg.Response) []int16
	}{
		"create": {
			&kmsg.CreateTopicsRequest{Topics: []kmsg.CreateTopicsRequestTopic{{Topic: "x"}, {Topic: "y"}}},
			func(r kmsg.Response) (codes []int16) {
				for _, t := range r.(*kmsg.CreateTopicsResponse).Topics {
					codes = append(codes, t.ErrorCode)
				}
				return codes
			},
		},
		"delete": {
			&kmsg.DeleteTopicsRequest{TopicNames: []string{"x", "y"}, Topics: []kmsg.DeleteTopicsRequestTopic{{Topic: text("x")}, {TopicID: topicID(9)}}},
			func(r kmsg.Response) (codes []int16) {
				for _, t := range r.(*kmsg.DeleteTopicsResponse).Topics {
					codes = append(codes, t.ErrorCode)
				}
				return codes
			},
		},
		"partitions": {
			&kmsg.CreatePartitionsRequest{Topics: []kmsg.CreatePartitionsRequestTopic{{Topic: "x"}, {Topic: "y"}}},
			func(r kmsg.Response) (codes []int16) {
				for _, t := range r.(*kmsg.CreatePartitionsResponse).Topics {
					codes = append(codes, t.ErrorCode)
				}
				return codes
			},
		},
		"alter": {
			&kmsg.AlterConfigsRequest{Resources: []kmsg.AlterConfigsRequestResource{{ResourceName: "x"}, {ResourceName: "y"}}},
			func(r kmsg.Response) (codes []int16) {
				for _, t := range r.(*kmsg.AlterConfigsResponse).Resources {
					codes = append(codes, t.ErrorCode)
				}
				return codes
			},
		},
		"incremental": {
			&kmsg.IncrementalAlterConfigsRequest{Resources: []kmsg.IncrementalAlterConfigsRequestResource{{ResourceName: "x"}, {ResourceName: "y"}}},
			func(r kmsg.Response) (codes []int16) {
				for _, t := range r.(*kmsg.IncrementalAlterConfigsResponse).Resources {
					codes = append(codes, t.ErrorCode)
				}
				return codes
			},
		},
		"elect": {
			&kmsg.ElectLeadersRequest{Topics: []kmsg.ElectLeadersRequestTopic{{Topic: "x", Partitions: []int32{3}}}},
			func(r kmsg.Response) []int16 {
				return []int16{r.(*kmsg.ElectLeadersResponse).ErrorCode, r.(*kmsg.ElectLeadersResponse).Topics[0].Partitions[0].ErrorCode}
			},
		},
		"reassign": {
			&kmsg.AlterPartitionAssignmentsRequest{},
			func(r kmsg.Response) []int16 {
				return []int16{r.(*kmsg.AlterPartitionAssignmentsResponse).ErrorCode, r.(*kmsg.AlterPartitionAssignmentsResponse).ErrorCode}
			},
		},
		"reassignments": {
			&kmsg.ListPartitionReassignmentsRequest{},
			func(r kmsg.Response) []int16 {
				return []int16{r.(*kmsg.ListPartitionReassignmentsResponse).ErrorCode, r.(*kmsg.ListPartitionReassignmentsResponse).ErrorCode}
			},
		},
		"quorum": {
			&kmsg.DescribeQuorumRequest{},
			func(r kmsg.Response) []int16 {
				return []int16{r.(*kmsg.DescribeQuorumResponse).ErrorCode, r.(*kmsg.DescribeQuorumResponse).ErrorCode}
			},
		},
		"features": {
			&kmsg.UpdateFeaturesRequest{},
			func(r kmsg.Response) []int16 {
				return []int16{r.(*kmsg.UpdateFeaturesResponse).ErrorCode, r.(*kmsg.UpdateFeaturesResponse).ErrorCode}
			},
		},
		"unregister": {
			&kmsg.UnregisterBrokerRequest{},
			func(r kmsg.Response) []int16 {
				return []int16{r.(*kmsg.UnregisterBrokerResponse).ErrorCode, r.(*kmsg.UnregisterBrokerResponse).ErrorCode}
			},
		},
	}
	for name, tt := range requests {
		for err, want := range map[error]*kerr.Error{
			errors.Join(errors.New("bus"), kerr.NotController): kerr.NotController,
			context.DeadlineExceeded:                           kerr.RequestTimedOut,
			errors.New("odd"):                                  kerr.UnknownServerError,
		} {
			f.with(func() { f.forward = func(context.Context, int16, int16, []byte) ([]byte, error) { return nil, err } })
			got := tt.path(ask[kmsg.Response](c, tt.request, tt.request.MaxVersion()))
			if !reflect.DeepEqual(got, []int16{want.Code, want.Code}) {
				t.Errorf("%s, %v: %v", name, err, got)
			}
		}
	}
}

// A body that does not decode closes the connection and does not reach the controller.
func TestUndecodableAdminRequest(t *testing.T) {
	c := serve(t, newFake(t))
	b := kmsg.NewRequestFormatter().AppendRequest(nil, &kmsg.CreateTopicsRequest{Version: 7}, 1)
	b = b[:len(b)-2]
	b[3] -= 2
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes were answered", n)
	}
}

func TestApiVersions(t *testing.T) {
	f := newFake(t)
	c := serve(t, f)
	plain := func() *kmsg.ApiVersionsRequest {
		q := kmsg.NewPtrApiVersionsRequest()
		q.ClientSoftwareName, q.ClientSoftwareVersion = "apache-kafka-java", "4.3.1"
		return q
	}
	for version := range int16(6) {
		resp := ask[*kmsg.ApiVersionsResponse](c, plain(), version)
		zeros, others := 0, 0
		for _, s := range resp.SupportedFeatures {
			if want := metadata.SupportedFeatures()[s.Name]; want.Min != s.MinVersion || want.Max != s.MaxVersion {
				t.Errorf("v%d: %+v", version, s)
			}
			if s.MinVersion == 0 {
				zeros++
			} else {
				others++
			}
		}
		if resp.ErrorCode != 0 || (zeros > 0) != (version >= 4) || (others > 0) != (version >= 3) {
			t.Errorf("v%d: code %d, %d features from level 0, %d others", version, resp.ErrorCode, zeros, others)
		}
		if version >= 3 && resp.FinalizedFeaturesEpoch != f.image.Offset() {
			t.Errorf("v%d: epoch %d", version, resp.FinalizedFeaturesEpoch)
		}
	}
	for _, tt := range []struct {
		name    string
		change  func(*kmsg.ApiVersionsRequest)
		version int16
		want    int16
	}{
		{"old clients send no name", func(q *kmsg.ApiVersionsRequest) { q.ClientSoftwareName = "" }, 2, 0},
		{"no name", func(q *kmsg.ApiVersionsRequest) { q.ClientSoftwareName = "" }, 3, kerr.InvalidRequest.Code},
		{"blank", func(q *kmsg.ApiVersionsRequest) { q.ClientSoftwareName = "a b" }, 3, kerr.InvalidRequest.Code},
		{"line break", func(q *kmsg.ApiVersionsRequest) { q.ClientSoftwareName = "a\n" }, 3, kerr.InvalidRequest.Code},
		{"ends in a dot", func(q *kmsg.ApiVersionsRequest) { q.ClientSoftwareVersion = "1." }, 4, kerr.InvalidRequest.Code},
		{"this node", func(q *kmsg.ApiVersionsRequest) { q.ClusterID, q.NodeID = text("cluster"), 1 }, 5, 0},
		{"another node", func(q *kmsg.ApiVersionsRequest) { q.ClusterID, q.NodeID = text("cluster"), 2 }, 5, kerr.RebootstrapRequired.Code},
		{"another cluster", func(q *kmsg.ApiVersionsRequest) { q.ClusterID, q.NodeID = text("other"), 1 }, 5, kerr.RebootstrapRequired.Code},
		{"half a target", func(q *kmsg.ApiVersionsRequest) { q.NodeID = 1 }, 5, kerr.InvalidRequest.Code},
	} {
		q := plain()
		tt.change(q)
		if resp := ask[*kmsg.ApiVersionsResponse](c, q, tt.version); resp.ErrorCode != tt.want {
			t.Errorf("%s: %d", tt.name, resp.ErrorCode)
		}
	}
}

func TestInitProducerID(t *testing.T) {
	f := newFake(t)
	blocks := int64(0)
	f.allocate = func(context.Context) (int64, int32, error) {
		if blocks++; blocks > 2 {
			return 0, 0, kerr.NotController
		}
		return blocks * 5000, 3, nil
	}
	c := serve(t, f)
	var got []int64
	for version := range int16(6) {
		resp := ask[*kmsg.InitProducerIDResponse](c, kmsg.NewPtrInitProducerIDRequest(), version)
		if resp.ErrorCode != 0 || resp.ProducerEpoch != 0 {
			t.Errorf("v%d: %+v", version, resp)
		}
		got = append(got, resp.ProducerID)
	}
	if want := []int64{5000, 5001, 5002, 10000, 10001, 10002}; !reflect.DeepEqual(got, want) {
		t.Errorf("ids %v", got)
	}
	for _, tt := range []struct {
		name   string
		change func(*kmsg.InitProducerIDRequest)
		want   int16
	}{
		{"no block", func(q *kmsg.InitProducerIDRequest) {}, kerr.CoordinatorLoadInProgress.Code},
		{"transactional", func(q *kmsg.InitProducerIDRequest) { q.TransactionalID = text("t") }, kerr.NotCoordinator.Code},
		{"empty transactional id", func(q *kmsg.InitProducerIDRequest) { q.TransactionalID = text("") }, kerr.InvalidRequest.Code},
		{"id without epoch", func(q *kmsg.InitProducerIDRequest) { q.ProducerID = 4 }, kerr.InvalidRequest.Code},
		{"epoch without id", func(q *kmsg.InitProducerIDRequest) { q.ProducerEpoch = 4 }, kerr.InvalidRequest.Code},
	} {
		q := kmsg.NewPtrInitProducerIDRequest()
		tt.change(q)
		if resp := ask[*kmsg.InitProducerIDResponse](c, q, 5); resp.ErrorCode != tt.want || resp.ProducerID != -1 || resp.ProducerEpoch != -1 {
			t.Errorf("%s: %+v", tt.name, resp)
		}
	}
}

// Registering takes keys that a role could take too; the router refuses both.
func TestRegisterTwicePanics(t *testing.T) {
	router := server.NewRouter()
	register(router, newFake(t), Options{})
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	register(router, newFake(t), Options{})
}
