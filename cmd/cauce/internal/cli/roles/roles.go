// Package roles reads which roles a node has from what a cluster says of it.
package roles

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/node/anywhere"
)

// Of are a node's roles; none where the cluster does not tell, as Kafka's does not.
func Of(n kmsg.DescribeClusterResponseBroker) []string {
	var list []string
	n.UnknownTags.Each(func(tag uint32, value []byte) {
		if tag == anywhere.RolesTag {
			list = strings.Split(string(value), ",")
		}
	})
	return list
}

// IsBroker says whether the node may have replicas, which every node may of a cluster that does not tell roles.
func IsBroker(n kmsg.DescribeClusterResponseBroker) bool {
	list := Of(n)
	return len(list) == 0 || slices.Contains(list, metadata.RoleBroker)
}
