//go:build conformance

package protocol

import (
	"reflect"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/tests/conformance/internal/wire"
)

// missing is a name of no topic, group or anything else.
const missing = "conformance-missing"

// newRequest makes a request that fits its schema: an empty one, or one with one element in every array and something in
// every string. It is about the topic where that does no harm, and about what does not exist otherwise.
func newRequest(key, version int16, fill bool, topic wire.Topic) kmsg.Request {
	req := kmsg.RequestForKey(key)
	req.SetVersion(version)
	if d, ok := req.(interface{ Default() }); ok {
		d.Default()
	}
	if fill {
		f := filler{topic: wire.Topic{Name: missing}}
		if readsOnly[kmsg.Key(key)] {
			f.topic = topic
		}
		f.value(reflect.ValueOf(req).Elem(), "")
	}
	tame(req)
	return req
}

// readsOnly are the APIs that a request about the topic cannot do harm with.
var readsOnly = map[kmsg.Key]bool{
	kmsg.Produce: true, kmsg.Fetch: true, kmsg.ListOffsets: true, kmsg.Metadata: true, kmsg.OffsetForLeaderEpoch: true,
	kmsg.DescribeConfigs: true, kmsg.DescribeLogDirs: true, kmsg.DescribeProducers: true, kmsg.DescribeTopicPartitions: true,
}

// tame keeps a request from waiting, from asking for no answer, and from what could hurt the server.
func tame(req kmsg.Request) {
	switch req := req.(type) {
	case *kmsg.ProduceRequest:
		req.Acks, req.TransactionID = -1, nil
		batch := wire.Batch{Records: records(1, baseMs)}.Encode()
		for i := range req.Topics {
			for j := range req.Topics[i].Partitions {
				req.Topics[i].Partitions[j].Records = batch
			}
		}
	case *kmsg.FetchRequest:
		req.ReplicaID, req.ReplicaState.ID, req.MaxWaitMillis = -1, -1, 0
		req.SessionID, req.SessionEpoch = 0, -1
	case *kmsg.UnregisterBrokerRequest:
		req.BrokerID = 4242
	case *kmsg.UpdateFeaturesRequest:
		req.ValidateOnly = true
	case *kmsg.CreateTopicsRequest:
		for i := range req.Topics {
			t := &req.Topics[i]
			t.NumPartitions, t.ReplicationFactor, t.ReplicaAssignment, t.Configs = 1, 1, nil, nil
		}
		req.ValidateOnly = true
	case *kmsg.DescribeACLsRequest:
		req.ResourceType, req.ResourcePatternType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny
		req.Operation, req.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	case *kmsg.CreateACLsRequest:
		for i := range req.Creations {
			c := &req.Creations[i]
			c.ResourceType, c.ResourcePatternType = kmsg.ACLResourceTypeTopic, kmsg.ACLResourcePatternTypeLiteral
			c.Principal, c.Operation, c.PermissionType = "User:"+missing, kmsg.ACLOperationRead, kmsg.ACLPermissionTypeAllow
		}
	case *kmsg.DeleteACLsRequest:
		for i := range req.Filters {
			f := &req.Filters[i]
			f.ResourceType, f.ResourcePatternType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny
			f.Operation, f.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
		}
	case *kmsg.ApiVersionsRequest:
		req.ClientSoftwareName, req.ClientSoftwareVersion = "conformance", "1"
	}
}

type filler struct{ topic wire.Topic }

func (f filler) value(v reflect.Value, name string) {
	switch v.Kind() {
	case reflect.Struct:
		if d, ok := v.Addr().Interface().(interface{ Default() }); ok && name != "" {
			d.Default()
		}
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() && field.Name != "Version" && field.Name != "UnknownTags" {
				f.value(v.Field(i), field.Name)
			}
		}
	case reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		f.value(p.Elem(), name)
		v.Set(p)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		s := reflect.MakeSlice(v.Type(), 1, 1)
		f.value(s.Index(0), name+"[]")
		v.Set(s)
	case reflect.String:
		v.SetString(f.text(name))
	case reflect.Array:
		if name == "TopicID" || name == "TopicID[]" || name == "TopicIDs[]" {
			v.Set(reflect.ValueOf(f.topic.ID))
		}
	}
}

func (f filler) text(name string) string {
	switch name {
	case "Topic", "Topics[]", "TopicNames[]", "ResourceName":
		return f.topic.Name
	}
	return missing
}
