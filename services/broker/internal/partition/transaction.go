package partition

import (
	"github.com/cauce-stream/cauce/libs/log"
	"github.com/cauce-stream/cauce/libs/record"
)

// Verify says whether a batch begins a producer's transaction here, and gives the guard that Append then wants, once the
// transaction's coordinator was asked. With ownEpoch each transaction of the producer has an epoch of its own.
func (p *Partition) Verify(batch record.Batch, ownEpoch bool, nowMs int64) (g log.Guard, begins bool, err error) {
	l, err := p.Leading(-1)
	if err != nil {
		return g, false, err
	}
	return l.Verify(batch, ownEpoch, nowMs)
}

// EndTransaction writes the marker that ends a producer's transaction, as AppendAsCoordinator of package log says. Like a batch
// with acksAll it is refused while too few replicas are in sync. The caller tells the readers with TellEnded.
func (p *Partition) EndTransaction(e record.Ending, nowMs int64, done *Done) (log.AppendInfo, error) {
	p.leadership.RLock()
	defer p.leadership.RUnlock()
	l, err := p.Leading(-1)
	if err != nil {
		return log.AppendInfo{}, err
	}
	if err := p.enoughReplicas(true); err != nil {
		return log.AppendInfo{}, err
	}
	marker := e.Batch(nowMs)
	info, err := l.EndTransaction(marker, e.TxnVersion, p.state.Load().LeaderEpoch, nowMs)
	return info, p.appended(l, info, len(marker), err, done)
}

// TellEnded has the followers and the readers learn of a marker that ended at endOffset. To who reads what is committed it may show
// any number of records, which nobody counts.
func (p *Partition) TellEnded(endOffset int64, done *Done) { p.Tell(anyBytes, endOffset, done) }
