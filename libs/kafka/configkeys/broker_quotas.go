package configkeys

import "github.com/cauce-stream/cauce/libs/config"

// quotaKeys set how rates are measured, and who may do what.
var quotaKeys = []config.Key{
	{Name: "quota.window.num", Type: config.Int, Default: "11", Valid: config.AtLeast(1),
		Doc: "Windows over which client rates are measured."},
	{Name: "quota.window.size.seconds", Type: config.Int, Default: "1", Valid: config.AtLeast(1),
		Doc: "Seconds of one window of client rates."},
	{Name: "replication.quota.window.num", Type: config.Int, Default: "11", Valid: config.AtLeast(1),
		Doc: "Windows over which replication rates are measured."},
	{Name: "replication.quota.window.size.seconds", Type: config.Int, Default: "1", Valid: config.AtLeast(1),
		Doc: "Seconds of one window of replication rates."},
	{Name: "alter.log.dirs.replication.quota.window.num", Type: config.Int, Default: "11", Valid: config.AtLeast(1),
		Doc: "Windows over which rates between log directories are measured."},
	{Name: "alter.log.dirs.replication.quota.window.size.seconds", Type: config.Int, Default: "1", Valid: config.AtLeast(1),
		Doc: "Seconds of one window of rates between log directories."},
	{Name: "controller.quota.window.num", Type: config.Int, Default: "11", Valid: config.AtLeast(1),
		Doc: "Windows over which rates of topic changes are measured."},
	{Name: "controller.quota.window.size.seconds", Type: config.Int, Default: "1", Valid: config.AtLeast(1),
		Doc: "Seconds of one window of rates of topic changes."},
	{Name: "client.quota.callback.class", Type: config.Class, Null: true,
		Doc: "Class that decides which quota a client has."},
	{Name: "authorizer.class.name", Type: config.String,
		Doc: "Class that decides what a principal may do; empty means that everything is allowed."},
	{Name: "principal.builder.class", Type: config.Class, Default: "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
		Doc: "Class that names the principal of a connection."},
	{Name: "delegation.token.expiry.check.interval.ms", Type: config.Long, Default: "3600000", Valid: config.AtLeast(1),
		Doc: "Milliseconds between two looks for expired delegation tokens."},
	{Name: "delegation.token.expiry.time.ms", Type: config.Long, Default: "86400000", Valid: config.AtLeast(1),
		Doc: "Milliseconds that a delegation token is valid unless it is renewed."},
	{Name: "delegation.token.max.lifetime.ms", Type: config.Long, Default: "604800000", Valid: config.AtLeast(1),
		Doc: "Milliseconds after which a delegation token cannot be renewed any more."},
	{Name: "delegation.token.secret.key", Type: config.Password, Null: true,
		Doc: "Secret that signs delegation tokens; the same on all nodes."},
}
