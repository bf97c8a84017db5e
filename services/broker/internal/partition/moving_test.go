package partition

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/cauce-stream/cauce/libs/log"
	"github.com/cauce-stream/cauce/libs/record"
)

// TestTheFutureFollowsItsLog copies a log while records are appended under one leader epoch after the other, truncated where
// another leader had others, and deleted at the start, and demands that the copy is the log in the end.
func TestTheFutureFollowsItsLog(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { followRun(t, rand.New(rand.NewPCG(seed, 3))) })
	}
}

func followRun(t *testing.T, r *rand.Rand) {
	c := log.DefaultConfig()
	c.SegmentBytes = 500 + r.IntN(3000)
	open := func() *log.Log {
		l, err := log.Open(filepath.Join(t.TempDir(), "t-0"), log.Options{Config: c})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	l, future := open(), open()
	epoch := int32(0)
	for range 150 {
		var err error
		switch r.IntN(8) {
		case 0:
			if high := l.HighWatermark(); high < l.EndOffset() {
				err = l.TruncateTo(high + r.Int64N(l.EndOffset()-high))
				epoch += int32(r.IntN(3)) + 1
			}
		case 1:
			l.SetHighWatermark(l.StartOffset() + r.Int64N(l.EndOffset()-l.StartOffset()+1))
		case 2:
			if r.IntN(4) == 0 {
				_, err = l.DeleteRecords(l.StartOffset() + r.Int64N(l.HighWatermark()-l.StartOffset()+1))
			}
		case 3, 4:
			_, _, err = copyOn(l, future)
		default:
			err = appendSome(l, epoch, r)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for n := 0; ; n++ {
		_, complete, err := copyOn(l, future)
		if err != nil || n > 10_000 {
			t.Fatalf("after %d steps: %v", n, err)
		}
		if complete {
			break
		}
	}
	if l.StartOffset() != future.StartOffset() || l.HighWatermark() != future.HighWatermark() || l.EndOffset() != future.EndOffset() {
		t.Fatalf("the future is [%d, %d, %d], not [%d, %d, %d]", future.StartOffset(), future.HighWatermark(), future.EndOffset(),
			l.StartOffset(), l.HighWatermark(), l.EndOffset())
	}
	for offset := l.StartOffset(); offset < l.EndOffset(); {
		want, got := batchAt(t, l, offset), batchAt(t, future, offset)
		if !bytes.Equal(want, got) {
			t.Fatalf("offset %d of epoch %d is another record in the future, of epoch %d", offset, want.LeaderEpoch(), got.LeaderEpoch())
		}
		offset = want.LastOffset() + 1
	}
}

func appendSome(l *log.Log, epoch int32, r *rand.Rand) error {
	b := record.NewBuilder()
	for range r.IntN(3) + 1 {
		b.Append(0, nil, fmt.Append(nil, r.Uint64()))
	}
	batch, err := b.Build(record.None, 0)
	if err != nil {
		return err
	}
	_, err = l.Append(batch, epoch, 0)
	return err
}

func batchAt(t *testing.T, l *log.Log, offset int64) record.Batch {
	t.Helper()
	slice, err := l.Read(offset, 1, log.LogEnd, true)
	if err != nil {
		t.Fatal(err)
	}
	defer slice.Release()
	raw, err := slice.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	b, _, err := record.Next(raw)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
