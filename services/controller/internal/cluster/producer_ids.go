package cluster

import (
	"math"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/metadata"
	"github.com/cauce-stream/cauce/libs/metadata/metadatapb"
)

// producerIDBlock is how many producer ids a node takes at once (KIP-730).
const producerIDBlock = 1000

// AllocateProducerIDs gives the node the ids from first to first+count-1 for
// good.
func AllocateProducerIDs(im *metadata.Image, nodeID int32, epoch int64) (first int64, count int32, recs []*metadatapb.Record, err error) {
	n, err := currentNode(im, nodeID, epoch)
	if err != nil {
		return 0, 0, nil, err
	}
	first = im.NextProducerID()
	if first > math.MaxInt64-producerIDBlock {
		return 0, 0, nil, refuse(kerr.UnknownServerError, "Exhausted all producer ids")
	}
	return first, producerIDBlock, []*metadatapb.Record{producerIDsRecord(n, first+producerIDBlock)}, nil
}
