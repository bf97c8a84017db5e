package log

import (
	"encoding/binary"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/cauce-stream/cauce/libs/crc32c"
	"github.com/cauce-stream/cauce/libs/record"
)

// transactional is a batch of n records in a transaction of the producer.
func transactional(t testing.TB, pid int64, epoch int16, seq int32, n int) record.Batch {
	return buildBatch(t, record.None, func(b *record.Builder) {
		b.SetProducer(pid, epoch, seq)
		b.SetTransactional()
		for range n {
			b.Append(nowMs, []byte("k"), []byte("v"))
		}
	})
}

func appendVerified(l *Log, b record.Batch, g Guard) error {
	_, err := l.AppendVerified(b, crc32c.Checksum(b[record.AttributesAt:]), g, 0, nowMs)
	return err
}

// mustVerify is the guard of a batch that begins a transaction.
func mustVerify(t testing.TB, l *Log, b record.Batch) Guard {
	t.Helper()
	g, begins, err := l.Verify(b, false, nowMs)
	if err != nil || !begins {
		t.Fatalf("the batch begins a transaction: %v, %v", begins, err)
	}
	return g
}

func ending(pid int64, epoch int16, how record.ControlType) record.Ending {
	return record.Ending{Marker: record.Marker{Type: how, CoordinatorEpoch: 1}, ProducerID: pid, ProducerEpoch: epoch}
}

func end(l *Log, e record.Ending) error {
	_, err := l.EndTransaction(e.Batch(nowMs), e.TxnVersion, 0, nowMs)
	return err
}

func mustEnd(t testing.TB, l *Log, e record.Ending) {
	t.Helper()
	if err := end(l, e); err != nil {
		t.Fatal(err)
	}
}

func expectError(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

func TestATransactionBeginsWithAGuard(t *testing.T) {
	l := openNew(t, nil)
	expectError(t, "no guard", appendVerified(l, transactional(t, 1, 0, 0, 1), Guard{}), kerr.InvalidTxnState)
	g := mustVerify(t, l, transactional(t, 1, 0, 0, 1))
	expectError(t, "another's guard", appendVerified(l, transactional(t, 2, 0, 0, 1), g), kerr.InvalidTxnState)
	for seq, guard := range []Guard{g, {}, g} { // what begins it, and what goes on
		if err := appendVerified(l, transactional(t, 1, 0, int32(seq), 1), guard); err != nil {
			t.Fatal(err)
		}
	}
	if _, begins, err := l.Verify(transactional(t, 1, 0, 3, 1), false, nowMs); begins || err != nil {
		t.Errorf("a batch of an open transaction begins one: %v, %v", begins, err)
	}
	mustEnd(t, l, ending(1, 0, record.Commit))
	if _, begins, err := l.Verify(transactional(t, 1, 0, 2, 1), false, nowMs); begins || err != nil {
		t.Errorf("a batch that is there begins a transaction: %v, %v", begins, err)
	}
	if err := appendVerified(l, transactional(t, 1, 0, 2, 1), Guard{}); err != nil {
		t.Errorf("a batch that is there: %v", err)
	}
	expectError(t, "an old guard", appendVerified(l, transactional(t, 1, 0, 3, 1), g), kerr.InvalidTxnState)
	if err := appendVerified(l, idempotent(t, 1, 0, 3, 1), Guard{}); err != nil {
		t.Errorf("outside of transactions: %v", err)
	}
}

// What a coordinator has said of a transaction does not hold for the next one, nor after a marker for the first.
func TestAMarkerOvertakesAVerification(t *testing.T) {
	l := openNew(t, nil)
	g := mustVerify(t, l, transactional(t, 1, 0, 0, 1))
	mustEnd(t, l, ending(1, 0, record.Abort))
	expectError(t, "ended meanwhile", appendVerified(l, transactional(t, 1, 0, 0, 1), g), kerr.InvalidTxnState)
	next := mustVerify(t, l, transactional(t, 1, 0, 0, 1))
	expectError(t, "the old one's guard", appendVerified(l, transactional(t, 1, 0, 0, 1), g), kerr.InvalidTxnState)
	if err := appendVerified(l, transactional(t, 1, 0, 0, 1), next); err != nil {
		t.Error(err)
	}
}

// Where each transaction has an epoch of its own, the next one may be added to while the last one's markers are written.
func TestAMarkerOfTheTransactionBeforeVoidsNothing(t *testing.T) {
	l := openNew(t, nil)
	mustAppend(t, l, transactional(t, 1, 0, 0, 1))
	for _, c := range []struct {
		marker int16
		want   error
	}{{1, nil}, {3, kerr.InvalidTxnState}} { // of the transaction before, and of the one that is verified
		b := transactional(t, 1, c.marker, 0, 1)
		if c.want != nil {
			b = transactional(t, 1, c.marker-1, 0, 1)
		}
		g, begins, err := l.Verify(b, true, nowMs)
		if err != nil || !begins {
			t.Fatal(begins, err)
		}
		marker := ending(1, c.marker, record.Commit)
		marker.TxnVersion = record.PerTxnEpochs
		mustEnd(t, l, marker)
		expectError(t, "after the marker", appendVerified(l, b, g), c.want)
		if c.want == nil {
			marker.ProducerEpoch++
			mustEnd(t, l, marker)
		}
	}
}

func TestBatchesKeepTheirOrderWhileVerified(t *testing.T) {
	l := openNew(t, nil)
	g := mustVerify(t, l, transactional(t, 1, 0, 0, 1))
	if again := mustVerify(t, l, transactional(t, 1, 0, 1, 1)); again != g {
		t.Error("two guards of one producer")
	}
	expectError(t, "the second first", appendVerified(l, transactional(t, 1, 0, 1, 1), g), kerr.OutOfOrderSequenceNumber)
	for seq := range int32(2) {
		if err := appendVerified(l, transactional(t, 1, 0, seq, 1), g); err != nil {
			t.Error(err)
		}
	}
	mustVerify(t, l, transactional(t, 2, 4, 7, 1))
	g = mustVerify(t, l, transactional(t, 2, 5, 8, 1)) // another incarnation
	expectError(t, "the earlier epoch", appendVerified(l, transactional(t, 2, 4, 7, 1), g), kerr.InvalidProducerEpoch)
	if err := appendVerified(l, transactional(t, 2, 5, 8, 1), g); err != nil {
		t.Error(err)
	}
	// A newer epoch begins anew, whatever the older one has open.
	mustVerify(t, l, transactional(t, 2, 6, 0, 1))
}

func TestVerificationsAreBounded(t *testing.T) {
	l := openNew(t, nil)
	b := transactional(t, 0, 0, 0, 1)
	verify := func(pid, ms int64) error {
		binary.BigEndian.PutUint64(b[record.ProducerIDAt:], uint64(pid))
		_, _, err := l.Verify(b, false, ms)
		return err
	}
	for pid := range int64(maxVerifications) {
		if err := verify(pid, nowMs); err != nil {
			t.Fatal(err)
		}
	}
	expectError(t, "one more", verify(maxVerifications, nowMs+verificationKeptMs-1), kerr.NotEnoughReplicas)
	if err := verify(maxVerifications, nowMs+verificationKeptMs); err != nil {
		t.Error(err)
	}
}

// BL-056: a marker that is delayed past the next transaction of the same producer ends nothing of that.
func TestALateMarkerDoesNotEndTheNextTransaction(t *testing.T) {
	l := openNew(t, nil)
	marker := ending(1, 1, record.Commit)
	marker.TxnVersion = record.PerTxnEpochs
	mustAppend(t, l, transactional(t, 1, 0, 0, 1))
	mustEnd(t, l, marker)
	mustEnd(t, l, marker) // sent again: its answer was lost
	mustAppend(t, l, transactional(t, 1, 1, 0, 1))
	expectError(t, "late", end(l, marker), kerr.InvalidProducerEpoch)
	l.SetHighWatermark(l.EndOffset())
	if got := l.StableOffset(); got != 3 {
		t.Errorf("stable offset %d, want 3", got)
	}
	marker.ProducerEpoch = 2
	mustEnd(t, l, marker)
	expectError(t, "of an epoch before", end(l, ending(1, 1, record.Abort)), kerr.InvalidProducerEpoch)
}

func TestZombiesAreFenced(t *testing.T) {
	l := openNew(t, nil)
	mustAppend(t, l, transactional(t, 1, 0, 0, 1))
	mustEnd(t, l, ending(1, 1, record.Abort)) // by a coordinator that fences the producer
	for what, b := range map[string]record.Batch{"transactional": transactional(t, 1, 0, 1, 1), "plain": idempotent(t, 1, 0, 1, 1)} {
		_, err := l.Append(b, 0, nowMs)
		expectError(t, what, err, kerr.InvalidProducerEpoch)
	}
	mustAppend(t, l, transactional(t, 1, 1, 0, 1))
}

// stateOf is what a log knows of its transactions.
func stateOf(t testing.TB, l *Log) (producers []ProducerState, aborted []AbortedTxn, stable int64) {
	t.Helper()
	aborted, err := l.AbortedTxns(nil, 0, l.EndOffset())
	if err != nil {
		t.Fatal(err)
	}
	return l.Producers(nowMs), aborted, l.StableOffset()
}

func sameState(t testing.TB, what string, l, want *Log) {
	t.Helper()
	p, a, s := stateOf(t, l)
	wantP, wantA, wantS := stateOf(t, want)
	if !slices.Equal(p, wantP) || !slices.Equal(a, wantA) || s != wantS {
		t.Errorf("%s: %+v, aborted %v, stable offset %d; want %+v, aborted %v, stable offset %d", what, p, a, s, wantP, wantA, wantS)
	}
}

// fillTransactions has transactions that are committed, aborted and open, over several segments.
func fillTransactions(t testing.TB, l *Log) {
	for i := range int32(20) {
		mustAppend(t, l, transactional(t, 1, 0, 2*i, 2))
		mustAppend(t, l, transactional(t, 2, 0, i, 1))
		mustAppend(t, l, idempotent(t, 3, 0, i, 1))
		mustEnd(t, l, ending(1, 0, record.ControlType(i%2)))
		if i%5 == 0 {
			end := ending(2, 0, record.Abort)
			end.CoordinatorEpoch = i
			mustEnd(t, l, end)
		}
	}
	l.SetHighWatermark(l.EndOffset())
}

func smallSegments(o *Options) { o.Config.SegmentBytes = 1500 }

// A follower, a restart and a recovery come to what the leader knows.
func TestTransactionsAreFoundAgain(t *testing.T) {
	leader := openNew(t, smallSegments)
	fillTransactions(t, leader)
	if _, aborted, stable := stateOf(t, leader); len(aborted) != 14 || stable >= leader.EndOffset() {
		t.Fatalf("aborted %v, stable offset %d of %d", aborted, stable, leader.EndOffset())
	}
	dir := filepath.Join(memDir(t), "topic-0")
	o := testOptions()
	smallSegments(&o)
	follower := openAt(t, dir, o)
	for _, b := range readAll(t, leader, 0, 1000, LogEnd) {
		if _, err := follower.AppendAsFollower(b); err != nil {
			t.Fatal(err)
		}
	}
	follower.SetHighWatermark(leader.EndOffset())
	sameState(t, "follower", follower, leader)

	if err := follower.Close(); err != nil {
		t.Fatal(err)
	}
	o.HighWatermark = leader.EndOffset()
	o.CleanShutdown, o.RecoveryPoint = true, follower.RecoveryPoint()
	follower = openAt(t, dir, o)
	sameState(t, "after a restart", follower, leader)
	older := record.Ending{Marker: record.Marker{CoordinatorEpoch: 14}, ProducerID: 2}
	expectError(t, "a coordinator of before the restart", end(follower, older), kerr.TransactionCoordinatorFenced)

	abandon(follower)
	o.CleanShutdown, o.RecoveryPoint = false, 30
	sameState(t, "after a recovery", openAt(t, dir, o), leader)
}

// What is cut off has neither begun nor ended a transaction.
func TestTruncationReopensTransactions(t *testing.T) {
	for _, cut := range []int64{3, 4, 5, 40, 41, 42, 43} {
		l := openNew(t, smallSegments)
		fillTransactions(t, l)
		if err := l.TruncateTo(cut); err != nil {
			t.Fatal(err)
		}
		want := openNew(t, smallSegments)
		for _, b := range readAll(t, l, 0, 1000, LogEnd) {
			if _, err := want.AppendAsFollower(b); err != nil {
				t.Fatal(err)
			}
		}
		want.SetHighWatermark(l.HighWatermark())
		sameState(t, "truncated", l, want)
	}
	l := openNew(t, nil)
	mustAppend(t, l, transactional(t, 1, 0, 0, 1))
	g := mustVerify(t, l, transactional(t, 2, 0, 0, 1))
	if err := l.TruncateTo(0); err != nil {
		t.Fatal(err)
	}
	expectError(t, "a guard from before", appendVerified(l, transactional(t, 2, 0, 0, 1), g), kerr.InvalidTxnState)
}

// A producer is not forgotten in the middle of a transaction, however long that lasts.
func TestExpiryInTheMiddleOfATransaction(t *testing.T) {
	l := openNew(t, nil)
	mustAppend(t, l, transactional(t, 1, 0, 0, 1))
	late := nowMs + 10*l.Config().ProducerIDExpirationMs
	l.ExpireProducers(late)
	if _, err := l.Append(transactional(t, 1, 0, 2, 1), 0, nowMs); !errors.Is(err, kerr.OutOfOrderSequenceNumber) {
		t.Errorf("a gap: %v", err)
	}
	mustAppend(t, l, transactional(t, 1, 0, 1, 1))
	mustEnd(t, l, ending(1, 0, record.Commit))
	l.ExpireProducers(late)
	if n := len(l.Producers(nowMs)); n != 0 {
		t.Errorf("%d producers are left", n)
	}
	l.SetHighWatermark(3)
	if got := l.StableOffset(); got != 3 {
		t.Errorf("stable offset %d", got)
	}
}

// A reader learns of the transactions that concern what it reads, not of all that were aborted since.
func TestAReadKnowsHowFarItReaches(t *testing.T) {
	l := openNew(t, func(o *Options) { o.Config.IndexIntervalBytes = 200 })
	for i := range int32(100) {
		mustAppend(t, l, transactional(t, 1, 0, i, 1))
		mustEnd(t, l, ending(1, 0, record.Abort))
	}
	l.SetHighWatermark(l.EndOffset())
	s, err := l.Read(100, 500, Stable, true)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	if s.UpTo() < 106 || s.UpTo() > 115 {
		t.Errorf("500 bytes from offset 100 reach %d", s.UpTo())
	}
	raw, err := s.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	for b, rest, err := record.Next(raw); err == nil; b, rest, err = record.Next(rest) {
		if b.LastOffset() >= s.UpTo() {
			t.Errorf("a record at offset %d", b.LastOffset())
		}
	}
	aborted, err := l.AbortedTxns(nil, 100, s.UpTo())
	if err != nil || len(aborted) == 0 || aborted[0].FirstOffset != 100 || len(aborted) > 8 {
		t.Errorf("aborted %v, %v", aborted, err)
	}
	all, err := l.Read(0, 1<<20, Stable, true)
	if err != nil || all.UpTo() != 200 {
		t.Errorf("the whole log reaches %d, %v", all.UpTo(), err)
	}
	all.Release()
}

func TestMarkersAreNotCompressed(t *testing.T) {
	l := openNew(t, func(o *Options) { o.Config.CompressionType = "lz4" })
	mustAppend(t, l, transactional(t, 1, 0, 0, 1))
	mustEnd(t, l, ending(1, 0, record.Commit))
	if got := readAll(t, l, 1, 1000, LogEnd); len(got) != 1 || got[0].Codec() != record.None {
		t.Errorf("marker %v", got)
	}
}
