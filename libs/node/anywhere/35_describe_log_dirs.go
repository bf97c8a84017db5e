package anywhere

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/kafka/server"
)

// DescribeLogDirs (key 35), versions 1 to 5 (KIP-113), of a node that stores no partitions.
//
// Clients ask every node that they are told of, and Kafka's takes an answer without directories for a lack of authorisation, which fails what it has been
// told by brokers as well. So there is one directory in it, which has no path, and of which nothing is known: what the node has, partitions or disk, is none.
func (h *handlers) describeLogDirs(_ *server.Request, q *kmsg.DescribeLogDirsRequest) kmsg.Response {
	resp := q.ResponseKind().(*kmsg.DescribeLogDirsResponse)
	none := kmsg.NewDescribeLogDirsResponseDir()
	none.TotalBytes, none.UsableBytes = -1, -1
	resp.Dirs = append(resp.Dirs, none)
	return resp
}
