package simulation

import "slices"

// entry is one record: the leader epoch that it was appended under, and a value that no other record has.
type entry struct {
	epoch int32
	value int
}

// epochStart says where the records of a leader epoch begin.
type epochStart struct {
	epoch int32
	at    int64
}

// disk is a replica's log. What lies behind flushed is lost when the machine fails.
type disk struct {
	entries    []entry
	epochs     []epochStart
	flushed    int64
	hw         int64
	checkpoint int64 // of the high watermark
}

// StartOffset is History's: nothing is ever deleted.
func (d *disk) StartOffset() int64 { return 0 }

// EndOffset is History's.
func (d *disk) EndOffset() int64 { return int64(len(d.entries)) }

// EndOffsetForEpoch is History's.
func (d *disk) EndOffsetForEpoch(epoch int32) (int32, int64) {
	switch latest := d.latestEpoch(); {
	case epoch < 0 || epoch > latest:
		return -1, -1
	case epoch == latest:
		return epoch, d.EndOffset()
	}
	i := slices.IndexFunc(d.epochs, func(s epochStart) bool { return s.epoch > epoch })
	if i == 0 {
		return epoch, d.epochs[0].at
	}
	return d.epochs[i-1].epoch, d.epochs[i].at
}

func (d *disk) latestEpoch() int32 {
	if len(d.epochs) == 0 {
		return -1
	}
	return d.epochs[len(d.epochs)-1].epoch
}

// assign notes that an epoch begins at the end of the log. Older ones that begin there too have no records.
func (d *disk) assign(epoch int32) {
	if epoch <= d.latestEpoch() {
		return
	}
	d.cutEpochs(d.EndOffset())
	d.epochs = append(d.epochs, epochStart{epoch, d.EndOffset()})
}

func (d *disk) cutEpochs(from int64) {
	for len(d.epochs) > 0 && d.epochs[len(d.epochs)-1].at >= from {
		d.epochs = d.epochs[:len(d.epochs)-1]
	}
}

func (d *disk) append(e entry) {
	d.assign(e.epoch)
	d.entries = append(d.entries, e)
}

func (d *disk) truncate(to int64) {
	d.cutEpochs(to)
	if to >= d.EndOffset() {
		return
	}
	// Who was sent a part of the log still has the records as they were.
	d.entries = slices.Clip(d.entries[:to])
	d.hw, d.flushed = min(d.hw, to), min(d.flushed, to)
}

func (d *disk) flush() { d.flushed = d.EndOffset() }

// begin is a start of the process: it knows the high watermark of the last checkpoint.
func (d *disk) begin() {
	d.checkpoint = min(d.checkpoint, d.EndOffset())
	d.hw = d.checkpoint
}
