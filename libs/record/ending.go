package record

// Ending is how a producer's transaction ends in a partition.
type Ending struct {
	Marker
	ProducerID    int64
	ProducerEpoch int16
	// TxnVersion is the transaction's (Kafka feature transaction.version). From PerTxnEpochs on an ending has a greater epoch than
	// what it ends, and one of the same epoch comes too late.
	TxnVersion int8
}

// PerTxnEpochs is the first transaction.version in which each transaction has a producer epoch of its own (KIP-890).
const PerTxnEpochs = 2

// Batch is the control batch of the ending, as EndTransaction makes it.
func (e Ending) Batch(timestampMs int64) Batch {
	return EndTransaction(e.Marker, e.ProducerID, e.ProducerEpoch, timestampMs)
}
