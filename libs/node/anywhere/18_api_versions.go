package anywhere

import (
	"maps"
	"regexp"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/kafka/server"
	"github.com/cauce-stream/cauce/libs/metadata"
)

// softwareName is what clients may call themselves (KIP-511).
var softwareName = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`)

// ApiVersions (key 18), versions 0 to 5.
//
//	3   the client's software (KIP-511); supported and finalized features (KIP-584)
//	4   supported features may start at level 0 (KAFKA-17011)
//	5   the client says which node it means to reach (KIP-1242)
//
// Newer versions are answered by the server (KIP-511).
func (h *handlers) apiVersions(_ *server.Request, q *kmsg.ApiVersionsRequest) kmsg.Response {
	resp := kmsg.NewPtrApiVersionsResponse()
	im := h.node.Image()
	if err := h.checkApiVersions(im, q); err != nil {
		resp.ErrorCode = err.Code
		return resp
	}
	resp.ApiKeys = h.router.Versions()
	supported := metadata.SupportedFeatures()
	for _, name := range slices.Sorted(maps.Keys(supported)) {
		if supported[name].Min == 0 && q.Version < 4 {
			continue // those clients take a level of 0 for a fault
		}
		f := kmsg.NewApiVersionsResponseSupportedFeature()
		f.Name, f.MinVersion, f.MaxVersion = name, supported[name].Min, supported[name].Max
		resp.SupportedFeatures = append(resp.SupportedFeatures, f)
	}
	resp.FinalizedFeaturesEpoch = im.FeaturesEpoch()
	finalized := im.Features()
	for _, name := range slices.Sorted(maps.Keys(finalized)) {
		f := kmsg.NewApiVersionsResponseFinalizedFeature()
		f.Name, f.MinVersionLevel, f.MaxVersionLevel = name, finalized[name], finalized[name]
		resp.FinalizedFeatures = append(resp.FinalizedFeatures, f)
	}
	return resp
}

// checkApiVersions says why a request is not answered.
func (h *handlers) checkApiVersions(im *metadata.Image, q *kmsg.ApiVersionsRequest) *kerr.Error {
	if q.Version >= 3 && (!softwareName.MatchString(q.ClientSoftwareName) || !softwareName.MatchString(q.ClientSoftwareVersion)) {
		return kerr.InvalidRequest
	}
	if q.Version < 5 || q.ClusterID == nil && q.NodeID < 0 {
		return nil
	}
	if q.ClusterID == nil || q.NodeID < 0 {
		return kerr.InvalidRequest
	}
	if *q.ClusterID != im.ClusterID() || q.NodeID != h.node.ID() {
		return kerr.RebootstrapRequired
	}
	return nil
}
