package metadata

// Names of features, as Kafka names them.
const (
	FeatureMetadataVersion    = "metadata.version"
	FeatureKRaftVersion       = "kraft.version"
	FeatureTransactionVersion = "transaction.version"
	FeatureGroupVersion       = "group.version"
	FeatureELRVersion         = "eligible.leader.replicas.version"
)

// Levels of metadata.version: the first that KRaft had, 3.3-IV3, and 4.3-IV0.
// Cauce's own records do not depend on the level; clients and tools read it to
// learn what a cluster can do.
const (
	oldestMetadataVersion = 7
	latestMetadataVersion = 30
)

// SupportedFeatures are the levels that this release can run at. A node
// registers with them; the map is the caller's.
func SupportedFeatures() map[string]FeatureRange {
	return map[string]FeatureRange{
		FeatureMetadataVersion:    {oldestMetadataVersion, latestMetadataVersion},
		FeatureKRaftVersion:       {0, 1},
		FeatureTransactionVersion: {0, 2},
		FeatureGroupVersion:       {0, 1},
		FeatureELRVersion:         {0, 1},
	}
}

// InitialFeatures are the levels that a new cluster is formatted with. Level 0
// is left out: it is the same as no level.
func InitialFeatures() map[string]int16 {
	return map[string]int16{
		FeatureMetadataVersion:    latestMetadataVersion,
		FeatureTransactionVersion: 2,
		FeatureGroupVersion:       1,
	}
}
