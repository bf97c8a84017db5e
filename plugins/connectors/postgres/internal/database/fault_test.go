package database

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

func TestFaults(t *testing.T) {
	sql := func(code string) error { return FromServer(&pgconn.PgError{Code: code}) }
	for _, test := range []struct {
		err                                 error
		passes, misplaced, ofData, outdated bool
	}{
		{err: nil},
		{err: sql("08006"), passes: true},
		{err: sql("40P01"), passes: true},
		{err: sql("53300"), passes: true},
		{err: sql("57P01"), passes: true},
		{err: sql("57P03"), passes: true},
		{err: sql("25006"), passes: true},
		{err: FromServer(io.ErrUnexpectedEOF), passes: true},
		{err: fmt.Errorf("reading: %w", FromServer(io.EOF)), passes: true},
		{err: FromServer(&net.DNSError{IsNotFound: true}), passes: true, misplaced: true},
		{err: FromServer(context.DeadlineExceeded), passes: true},
		{err: FromServer(context.Canceled), misplaced: true},
		{err: errors.New("not of the server"), misplaced: true},
		{err: sql("28P01"), misplaced: true},
		{err: sql("3D000"), misplaced: true},
		{err: sql("22P02"), misplaced: true, ofData: true},
		{err: sql("23505"), misplaced: true, ofData: true},
		{err: sql("P0001"), misplaced: true, ofData: true},
		{err: sql("42703"), misplaced: true, outdated: true},
		{err: sql("42P01"), misplaced: true, outdated: true},
	} {
		if Passes(test.err) != test.passes || Misplaced(test.err) != test.misplaced || OfData(test.err) != test.ofData || Outdated(test.err) != test.outdated {
			t.Errorf("%v: %t %t %t %t", test.err, Passes(test.err), Misplaced(test.err), OfData(test.err), Outdated(test.err))
		}
	}
}
