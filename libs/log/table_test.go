package log

import (
	"math/rand/v2"
	"testing"
)

// TestIndexSearch looks every entry of a long index up, and what lies between, before and after them, with the entries in
// memory, in the file, and in both; keys grow evenly, in leaps, or like nothing a guess could be right about.
func TestIndexSearch(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for name, step := range map[string]func(i int64) int64{
		"even":      func(int64) int64 { return 10 },
		"uneven":    func(int64) int64 { return 1 + rng.Int64N(1000) },
		"leaps":     func(i int64) int64 { return 1 + i%7/6*100_000 },
		"quadratic": func(i int64) int64 { return 1 + i/2 },
	} {
		for _, n := range []int{1, 2, 300, 511, 512, 513, 900, 5000} {
			s := newSegment(nil, memDir(t), 1000, nowMs)
			c := DefaultConfig()
			if err := s.create(&c); err != nil {
				t.Fatal(err)
			}
			keys := make([]int64, n)
			key := int64(0)
			for i := range keys {
				key += step(int64(i))
				keys[i] = key
				if err := s.offsets.add(1000+key, int64(i)*4096); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				for i, key := range keys {
					for _, offset := range []int64{key - 1, key, key + 1} {
						want := int64(max(i-1, 0)) * 4096
						if offset >= key {
							want = int64(i) * 4096
						}
						if i+1 < n && offset >= keys[i+1] || i > 0 && offset < keys[i-1] {
							continue
						}
						if pos, err := s.offsets.lookup(1000 + offset); err != nil || pos != want {
							t.Fatalf("%s, %d entries: %d is at %d, want %d: %v", name, n, offset, pos, want, err)
						}
					}
				}
				if pos, err := s.offsets.lookup(1000); err != nil || pos != 0 {
					t.Errorf("before the first: %d, %v", pos, err)
				}
				if pos, err := s.offsets.lookup(1 << 40); err != nil || pos != int64(n-1)*4096 {
					t.Errorf("after the last: %d, %v", pos, err)
				}
				if err := s.offsets.shrink(); err != nil { // all of it into the file
					t.Fatal(err)
				}
			}
			cut := n / 2
			if err := s.offsets.cutFrom(1000 + keys[cut]); err != nil {
				t.Fatal(err)
			}
			if got := s.offsets.entries(); got != cut {
				t.Errorf("%s: %d of %d entries are left, want %d", name, got, n, cut)
			}
			s.drop()
		}
	}
}
