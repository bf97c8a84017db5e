package cluster

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/cauce-stream/cauce/libs/metadata"
)

// Kinds of change in UpdateFeatures.
const (
	featureUpgrade         int8 = 1
	featureSafeDowngrade   int8 = 2
	featureUnsafeDowngrade int8 = 3
)

// updateFeatures decides UpdateFeatures, key 57, versions 0 to 2 (KIP-584,
// KIP-778, KIP-1022). All updates of a request take hold or none does.
func updateFeatures(im *metadata.Image, env Env, req *kmsg.UpdateFeaturesRequest) Outcome {
	resp := req.ResponseKind().(*kmsg.UpdateFeaturesResponse)
	changed := map[string]int16{}
	for _, u := range req.FeatureUpdates {
		if req.Version == 0 {
			u.UpgradeType = featureUpgrade // version 0 had no other kind that Kafka 4 honours
		}
		if err := checkFeature(im, env, u); err != nil {
			code, message := answer(err)
			text := "The update failed for all features since the following feature had an error: " + *message
			resp.ErrorCode, resp.ErrorMessage = code, &text
			return Outcome{Response: resp}
		}
		if im.Features()[u.Feature] != u.MaxVersionLevel {
			changed[u.Feature] = u.MaxVersionLevel
		}
	}
	if req.Version < 2 {
		for _, u := range req.FeatureUpdates {
			res := kmsg.NewUpdateFeaturesResponseResult()
			res.Feature, res.ErrorMessage = u.Feature, kmsg.StringPtr("NONE")
			resp.Results = append(resp.Results, res)
		}
	}
	if req.ValidateOnly {
		return Outcome{Response: resp}
	}
	return Outcome{Response: resp, Records: featureRecords(changed)}
}

func checkFeature(im *metadata.Image, env Env, u kmsg.UpdateFeaturesRequestFeatureUpdate) error {
	level, now := u.MaxVersionLevel, im.Features()[u.Feature]
	invalid := func(reason string) error {
		return refuse(kerr.InvalidUpdateVersion, "Invalid update version %d for feature %s. %s", level, u.Feature, reason)
	}
	if u.UpgradeType < featureUpgrade || u.UpgradeType > featureUnsafeDowngrade {
		return invalid("The controller does not support the given upgrade type.")
	}
	if level < 0 {
		return invalid("A feature version cannot be less than 0.")
	}
	if reason := unsupported(im, env, u.Feature, level); reason != "" {
		return invalid(reason)
	}
	if _, ok := env.Features[u.Feature]; !ok {
		return invalid("Feature " + u.Feature + " not found.")
	}
	switch {
	case level < now && u.UpgradeType == featureUpgrade:
		return invalid("Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade.")
	case level > now && u.UpgradeType != featureUpgrade:
		return invalid("Can't downgrade to a newer version.")
	case level < now && u.Feature == metadata.FeatureKRaftVersion:
		return invalid("Can't downgrade the version of this feature.")
	case level < now && u.Feature == metadata.FeatureMetadataVersion:
		return metadataDowngrade(now, level, u.UpgradeType)
	case level < now && u.Feature == metadata.FeatureELRVersion &&
		anyPartition(im, func(p *metadata.Partition) bool { return len(p.ISR) == 0 }):
		return invalid("Can't downgrade while there are partitions without an in-sync replica.")
	}
	return nil
}

func metadataDowngrade(now, level int16, kind int8) error {
	reason := "Refusing to perform the requested downgrade because it might delete metadata information."
	if kind == featureUnsafeDowngrade {
		reason = "Unsafe metadata downgrade is not supported in this version."
	}
	return refuse(kerr.InvalidUpdateVersion, "Unsupported metadata.version downgrade from %d to %d. %s", now, level, reason)
}

// unsupported says which node cannot run at a level, or nothing. A feature that
// a node does not name it has at level 0 only.
func unsupported(im *metadata.Image, env Env, feature string, level int16) string {
	if !env.Features[feature].Contains(level) {
		return notSupported("Local controller", env.ControllerID, env.Features[feature])
	}
	for n := range im.Nodes() {
		if !n.Features[feature].Contains(level) {
			return notSupported("Broker", n.ID, n.Features[feature])
		}
	}
	return ""
}

func notSupported(what string, id int32, r metadata.FeatureRange) string {
	who := what + " " + nodeName(id)
	if r.Max == 0 {
		return who + " does not support this feature."
	}
	return who + " only supports versions " + r.String()
}

// checkNodeFeatures refuses a node that cannot run at the finalized levels.
func checkNodeFeatures(im *metadata.Image, features map[string]metadata.FeatureRange) error {
	levels := im.Features()
	for _, name := range sortedKeys(levels) {
		if r := features[name]; !r.Contains(levels[name]) {
			return refuse(kerr.UnsupportedVersion,
				"Unable to register because the broker does not support finalized version %d of %s. The broker wants a version between %d and %d, inclusive.",
				levels[name], name, r.Min, r.Max)
		}
	}
	for _, name := range sortedKeys(features) {
		if _, finalized := levels[name]; !finalized && !features[name].Contains(0) {
			return refuse(kerr.UnsupportedVersion,
				"Unable to register because the broker does not support finalized version 0 of %s. The broker wants a version between %d and %d, inclusive.",
				name, features[name].Min, features[name].Max)
		}
	}
	return nil
}
