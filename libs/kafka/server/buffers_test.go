package server

import "testing"

func TestBuffersAreUsedAgain(t *testing.T) {
	var p bufferPool
	for _, size := range []int{1, 512, 4097, 1 << 20, 6 << 20, 8 << 20} {
		b := p.get(size)
		if len(b) != size {
			t.Fatalf("%d bytes asked for, %d given", size, len(b))
		}
		p.put(b)
		if again := p.get(size); &again[0] != &b[0] {
			t.Errorf("the buffer of %d bytes is not used again", size)
		}
	}
	if b := p.get(8<<20 + 1); len(b) != 8<<20+1 {
		t.Errorf("a buffer above all classes has %d bytes", len(b))
	}
	p.put(make([]byte, 1000, 1000)) // of no class: left to the collector
	if list := &p.lists[classFor(1000)]; len(list.free) != 0 {
		t.Error("a buffer of another size is kept")
	}
}

func TestTrimKeepsWhatIsInUse(t *testing.T) {
	var p bufferPool
	const size = 4 << 20
	list := &p.lists[classFor(size)]
	burst := [][]byte{p.get(size), p.get(size), p.get(size)}
	for _, b := range burst {
		p.put(b)
	}
	p.trim()
	for range 10 { // one at a time is enough from here
		p.put(p.get(size))
	}
	p.trim()
	if len(list.free) != 1 {
		t.Errorf("%d buffers are kept where one was needed", len(list.free))
	}
	p.trim()
	if len(list.free) != 0 {
		t.Errorf("%d buffers are kept that nobody needed", len(list.free))
	}
}
