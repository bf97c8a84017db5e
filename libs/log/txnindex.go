package log

import (
	"encoding/binary"
	"os"
	"sync/atomic"
)

// txnEntrySize is version (0), producer id, first offset, last offset and the last stable offset when the transaction
// was decided: 2 + 4×8 bytes, big-endian.
const txnEntrySize = 34

// txnIndex is the .txnindex file: the transactions aborted by a marker in this segment, by the marker's offset. There is
// no file until there is one. Writers hold the log's mutex.
type txnIndex struct {
	file   lazyFile
	exists atomic.Bool // the file
}

type abortedTxn struct {
	producerID, first, last, stable int64
}

func (a abortedTxn) encode() []byte {
	b := make([]byte, 2, txnEntrySize)
	for _, v := range [...]int64{a.producerID, a.first, a.last, a.stable} {
		b = binary.BigEndian.AppendUint64(b, uint64(v))
	}
	return b
}

func decodeAborted(b []byte) abortedTxn {
	at := func(i int) int64 { return int64(binary.BigEndian.Uint64(b[2+8*i:])) }
	return abortedTxn{at(0), at(1), at(2), at(3)}
}

// read is all entries, none when there is no file. Bytes after the last whole entry are ignored.
func (x *txnIndex) read() ([]abortedTxn, error) {
	if !x.exists.Load() {
		return nil, nil
	}
	raw, err := os.ReadFile(x.file.seg.path(txnSuffix))
	if err != nil {
		return nil, err
	}
	txns := make([]abortedTxn, 0, len(raw)/txnEntrySize)
	for ; len(raw) >= txnEntrySize; raw = raw[txnEntrySize:] {
		txns = append(txns, decodeAborted(raw))
	}
	return txns, nil
}

func (x *txnIndex) add(a abortedTxn) error {
	s := x.file.seg
	if !x.exists.Load() {
		f, err := s.fs.Create(s.path(txnSuffix))
		if err != nil {
			return err
		}
		s.linked = false
		x.file.adopt(f).release()
		x.exists.Store(true)
	}
	h, err := x.file.acquire()
	if err != nil {
		return err
	}
	defer h.release()
	info, err := h.Stat()
	if err != nil {
		return err
	}
	_, err = s.fs.WriteAt(h.File, a.encode(), info.Size()/txnEntrySize*txnEntrySize)
	return err
}

// clear removes all entries.
func (x *txnIndex) clear() error {
	if !x.exists.Load() {
		return nil
	}
	h, err := x.file.acquire()
	if err != nil {
		return err
	}
	defer h.release()
	return x.file.seg.fs.Truncate(h.File, 0)
}

// cutFrom removes the transactions whose marker is at offset or above.
func (x *txnIndex) cutFrom(offset int64) error {
	txns, err := x.read()
	if err != nil || len(txns) == 0 {
		return err
	}
	n := 0
	for n < len(txns) && txns[n].last < offset {
		n++
	}
	h, err := x.file.acquire()
	if err != nil {
		return err
	}
	defer h.release()
	return x.file.seg.fs.Truncate(h.File, int64(n*txnEntrySize))
}

func (x *txnIndex) sync() error {
	if !x.exists.Load() {
		return nil
	}
	h, err := x.file.acquire()
	if err != nil {
		return err
	}
	defer h.release()
	return x.file.seg.fs.Sync(h.File)
}
