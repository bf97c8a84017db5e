package configkeys

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cauce-stream/cauce/libs/config"
)

// groupOverrideKeys can be set for a single group.
var groupOverrideKeys = []config.Key{
	{Name: "consumer.assignment.interval.ms", Type: config.Int, Default: "1000", Valid: config.AtLeast(0),
		Doc: "Milliseconds between two computations of the group's assignment."},
	{Name: "consumer.heartbeat.interval.ms", Type: config.Int, Default: "5000", Valid: config.AtLeast(1),
		Doc: "Milliseconds between two heartbeats of a member."},
	{Name: "consumer.session.timeout.ms", Type: config.Int, Default: "45000", Valid: config.AtLeast(1),
		Doc: "Milliseconds without a heartbeat after which a member is removed."},
	{Name: "errors.deadletterqueue.copy.record.enable", Type: config.Boolean, Default: "false",
		Doc: "Whether a record goes to the dead letter queue of a share group with its key, value and headers (KIP-1191)."},
	{Name: "errors.deadletterqueue.topic.name", Type: config.String,
		Doc: "Topic for the records that a share group gives up; empty means none."},
	{Name: "share.assignment.interval.ms", Type: config.Int, Default: "1000", Valid: config.AtLeast(0),
		Doc: "Milliseconds between two computations of the group's assignment."},
	{Name: "share.auto.offset.reset", Type: config.String, Default: "latest", Valid: offsetReset,
		Doc: "Where a share group begins without an offset: earliest, latest, or by_duration: and an ISO 8601 duration back from now."},
	{Name: "share.delivery.count.limit", Type: config.Int, Default: "5", Valid: config.AtLeast(2),
		Doc: "Deliveries of a record before it is archived."},
	{Name: "share.heartbeat.interval.ms", Type: config.Int, Default: "5000", Valid: config.AtLeast(1),
		Doc: "Milliseconds between two heartbeats of a member."},
	{Name: "share.isolation.level", Type: config.String, Default: "read_uncommitted", Valid: config.OneOf("read_committed", "read_uncommitted"),
		Doc: "Whether a share group reads records of open and aborted transactions."},
	{Name: "share.partition.max.record.locks", Type: config.Int, Default: "2000", Valid: config.AtLeast(100),
		Doc: "Records of one partition that may be acquired at once."},
	{Name: "share.record.lock.duration.ms", Type: config.Int, Default: "30000", Valid: config.AtLeast(1000),
		Doc: "Milliseconds that a member holds an acquired record."},
	{Name: "share.renew.acknowledge.enable", Type: config.Boolean, Default: "true",
		Doc: "Whether a member may renew the time for which it holds a record."},
	{Name: "share.session.timeout.ms", Type: config.Int, Default: "45000", Valid: config.AtLeast(1),
		Doc: "Milliseconds without a heartbeat after which a member is removed."},
	{Name: "streams.assignment.interval.ms", Type: config.Int, Default: "1000", Valid: config.AtLeast(0),
		Doc: "Milliseconds between two computations of the group's assignment."},
	{Name: "streams.assignor.name", Type: config.String, Null: true,
		Doc: "Assignor of a streams group; unset means the first of group.streams.assignors."},
	{Name: "streams.heartbeat.interval.ms", Type: config.Int, Default: "5000", Valid: config.AtLeast(1),
		Doc: "Milliseconds between two heartbeats of a member."},
	{Name: "streams.initial.rebalance.delay.ms", Type: config.Int, Default: "3000", Valid: config.AtLeast(0),
		Doc: "Milliseconds that the first assignment of an empty group waits for more members."},
	{Name: "streams.num.standby.replicas", Type: config.Int, Default: "0", Valid: config.AtLeast(0),
		Doc: "Standby copies of each stateful task."},
	{Name: "streams.rack.aware.assignment.tags", Type: config.List,
		Doc: "Client tags over which standby copies are spread."},
	{Name: "streams.session.timeout.ms", Type: config.Int, Default: "45000", Valid: config.AtLeast(1),
		Doc: "Milliseconds without a heartbeat after which a member is removed."},
}

// clientMetricsKeys make up a subscription to clients' metrics.
var clientMetricsKeys = []config.Key{
	{Name: "interval.ms", Type: config.Int, Default: "300000",
		Doc: "Milliseconds between two pushes of a client."},
	{Name: "match", Type: config.List,
		Doc: "Clients that are subscribed, as name=pattern pairs over client_id, client_instance_id, client_software_name, client_software_version, client_source_address and client_source_port."},
	{Name: "metrics", Type: config.List,
		Doc: "Prefixes of the metrics' names that are wanted; * for all."},
}

var isoDuration = regexp.MustCompile(`^P([0-9]+D)?(T([0-9]+H)?([0-9]+M)?([0-9]+(\.[0-9]+)?S)?)?$`)

// offsetReset accepts where a share group begins (KIP-932, KIP-1106).
var offsetReset = config.Validator{Text: "[latest, earliest, by_duration:PnDTnHnMn.nS]", Check: func(value string) error {
	if slices.Contains([]string{"latest", "earliest"}, value) {
		return nil
	}
	duration, ok := strings.CutPrefix(value, "by_duration:")
	if !ok {
		return fmt.Errorf("not one of latest, earliest, by_duration:…")
	}
	if !isoDuration.MatchString(duration) || strings.HasSuffix(duration, "P") || strings.HasSuffix(duration, "T") {
		return fmt.Errorf("%q is not an ISO 8601 duration such as PT1H30M", duration)
	}
	return nil
}}
