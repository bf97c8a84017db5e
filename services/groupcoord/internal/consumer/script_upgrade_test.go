package consumer

import (
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/services/groupcoord/internal/classic"
	"github.com/cauce-stream/cauce/services/groupcoord/internal/op"
)

// scriptUpgrade is a classic group that becomes a consumer group: upgrade [generation=5], then a member on each line, as
// MEMBER[/INSTANCE] TOPIC,… PARTITION… where the partition may be "userdata" for an assignor that keeps data of its own. With "claims"
// in front the partitions are what the member said it owns, and it has no assignment.
func scriptUpgrade(w *world, d *datadriven.TestData) string {
	var members []classic.Member
	for line := range strings.Lines(d.Input) {
		fields := strings.Fields(line)
		id, instance, static := strings.Cut(fields[0], "/")
		m := classic.Member{ID: id, ClientID: "c", ClientHost: "/127.0.0.1", RebalanceTimeout: 20 * time.Second, SessionTimeout: 10 * time.Second}
		if static {
			m.InstanceID = &instance
		}
		s := kmsg.ConsumerMemberMetadata{Version: 1, Topics: strings.Split(fields[1], ",")}
		claims := len(fields) > 2 && fields[2] == "claims"
		if claims {
			for topic, partitions := range w.partitions(fields[3:]) {
				t, _ := w.image.TopicByID(topic)
				s.OwnedPartitions = append(s.OwnedPartitions, kmsg.ConsumerMemberMetadataOwnedPartition{Topic: t.Name, Partitions: partitions})
			}
			fields = fields[:2]
		}
		m.Protocols = []classic.Protocol{{Name: "other", Metadata: []byte{0}}, {Name: "range", Metadata: s.AppendTo(nil)}}
		a := kmsg.ConsumerMemberAssignment{Version: 1}
		for _, p := range fields[2:] {
			if p == "userdata" {
				a.UserData = []byte{1}
				continue
			}
			for topic, partitions := range w.partitions([]string{p}) {
				t, _ := w.image.TopicByID(topic)
				a.Topics = append(a.Topics, kmsg.ConsumerMemberAssignmentTopic{Topic: t.Name, Partitions: partitions})
			}
		}
		if !claims {
			m.Assignment = a.AppendTo(nil)
		}
		members = append(members, m)
	}
	u, err := PrepareUpgrade(w.image, groupID, number(d, "generation", 5), "range", members)
	if err != nil {
		return failed(codeOf(err), nil) + ": " + err.Error() + "\n"
	}
	w.do(func(o *op.Op) { w.group.Upgrade(o, u) })
	return ""
}
