package configkeys

import "github.com/cauce-stream/cauce/libs/config"

// transactionKeys rule transactions and their coordination.
var transactionKeys = []config.Key{
	{Name: "add.partitions.to.txn.retry.backoff.ms", Type: config.Int, Default: "20", Valid: config.AtLeast(1),
		Doc: "Longest pause in milliseconds between two tries of adding a partition to a transaction; pauses double from 1 ms on."},
	{Name: "add.partitions.to.txn.retry.backoff.max.ms", Type: config.Int, Default: "100", Valid: config.AtLeast(0),
		Doc: "Milliseconds for which a produce request retries adding a partition to a transaction."},
	{Name: "transaction.abort.timed.out.transaction.cleanup.interval.ms", Type: config.Int, Default: "10000", Valid: config.AtLeast(1),
		Doc: "Milliseconds between two looks for transactions that are over their timeout."},
	{Name: "transaction.max.timeout.ms", Type: config.Int, Default: "900000", Valid: config.AtLeast(1),
		Doc: "Longest transaction timeout in milliseconds that a producer may ask for."},
	{Name: "transaction.partition.verification.enable", Type: config.Boolean, Default: "true",
		Doc: "Whether a leader checks with the coordinator that a transactional write belongs to an open transaction (KIP-890)."},
	{Name: "transaction.remove.expired.transaction.cleanup.interval.ms", Type: config.Int, Default: "3600000", Valid: config.AtLeast(1),
		Doc: "Milliseconds between two looks for transactional ids to forget."},
	{Name: "transaction.state.log.load.buffer.size", Type: config.Int, Default: "5242880", Valid: config.AtLeast(1),
		Doc: "Bytes read at once when a coordinator loads its transactions."},
	{Name: "transaction.state.log.min.isr", Type: config.Int, Default: "2", Valid: config.AtLeast(1),
		Doc: "In-sync replicas without which writes to the transaction topic are refused."},
	{Name: "transaction.state.log.num.partitions", Type: config.Int, Default: "50", Valid: config.AtLeast(1),
		Doc: "Partitions of the transaction topic; fixed once the topic exists."},
	{Name: "transaction.state.log.replication.factor", Type: config.Short, Default: "3", Valid: config.AtLeast(1),
		Doc: "Replicas of the transaction topic."},
	{Name: "transaction.state.log.segment.bytes", Type: config.Int, Default: "104857600", Valid: config.AtLeast(1),
		Doc: "Greatest size in bytes of a segment of the transaction topic."},
	{Name: "transaction.two.phase.commit.enable", Type: config.Boolean, Default: "false",
		Doc: "Whether producers may keep a transaction open without a timeout for two-phase commit (KIP-939)."},
	{Name: "transactional.id.expiration.ms", Type: config.Int, Default: "604800000", Valid: config.AtLeast(1),
		Doc: "Milliseconds without use after which a transactional id is forgotten."},
}
