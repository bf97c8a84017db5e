package configkeys

import "github.com/cauce-stream/cauce/libs/config"

// clientMetricsKeys make up a subscription to clients' metrics.
var clientMetricsKeys = []config.Key{
	{Name: "interval.ms", Type: config.Int, Default: "300000",
		Doc: "Milliseconds between two pushes of a client."},
	{Name: "match", Type: config.List,
		Doc: "Clients that are subscribed, as name=pattern pairs over client_id, client_instance_id, client_software_name, client_software_version, client_source_address and client_source_port."},
	{Name: "metrics", Type: config.List,
		Doc: "Prefixes of the metrics' names that are wanted; * for all."},
}
