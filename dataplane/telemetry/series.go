package telemetry

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/dataplane/message"
)

// sharded is one T a shard, made when a shard first needs it, so that a name
// without traffic costs one word. A T that is written often should fill whole
// cache lines (a multiple of 64 bytes), which its allocation then begins on.
type sharded[T any] struct {
	cells atomic.Pointer[[]atomic.Pointer[T]]
}

// at returns the cell of a shard of n. It allocates on the first use only.
func (s *sharded[T]) at(shard, n int) *T {
	if cells := s.cells.Load(); cells != nil {
		if cell := (*cells)[shard].Load(); cell != nil {
			return cell
		}
	}
	return s.make(shard, n)
}

func (s *sharded[T]) make(shard, n int) *T {
	if s.cells.Load() == nil {
		cells := make([]atomic.Pointer[T], n)
		s.cells.CompareAndSwap(nil, &cells)
	}
	slot := &(*s.cells.Load())[shard]
	slot.CompareAndSwap(nil, new(T))
	return slot.Load()
}

// each visits the cells that exist.
func (s *sharded[T]) each(visit func(*T)) {
	cells := s.cells.Load()
	if cells == nil {
		return
	}
	for i := range *cells {
		if cell := (*cells)[i].Load(); cell != nil {
			visit(cell)
		}
	}
}

// bounds are the upper bounds of the duration buckets in seconds, as the HTTP
// metric conventions advise for http.server.request.duration.
var bounds = []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}

// nanoBounds are bounds in nanoseconds.
var nanoBounds = func() (n [14]int64) {
	for i, b := range bounds {
		n[i] = int64(b * float64(time.Second))
	}
	return n
}()

// histogram is two cache lines of counts; its sum is in nanoseconds.
type histogram struct {
	counts [len(nanoBounds) + 1]atomic.Uint64
	sum    atomic.Int64
}

func (h *histogram) add(nanos int64) {
	i := 0
	for i < len(nanoBounds) && nanos > nanoBounds[i] {
		i++
	}
	h.counts[i].Add(1)
	h.sum.Add(nanos)
}

// maxOutcomes bounds the outcomes that one route or cluster tells apart: an
// upstream that answers with every status must not grow the tables without end.
const maxOutcomes = 64

// durations is a histogram for each outcome and shard.
type durations struct {
	shards sharded[durationShard]

	mu   sync.Mutex
	seen []outcome // at most maxOutcomes
}

// durationShard is a list that is read without a lock and replaced to grow.
type durationShard struct {
	list atomic.Pointer[[]durationCell]
	_    [56]byte
}

type durationCell struct {
	outcome outcome
	*histogram
}

func (d *durations) add(shard, shards int, o outcome, nanos int64) {
	s := d.shards.at(shard, shards)
	if list := s.list.Load(); list != nil {
		for i := range *list {
			if cell := &(*list)[i]; cell.outcome == o {
				cell.add(nanos)
				return
			}
		}
	}
	d.grow(s, o).add(nanos)
}

// grow adds the outcome to the shard, or finds what stands for it.
func (d *durations) grow(s *durationShard, o outcome) *histogram {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Contains(d.seen, o) {
		if len(d.seen) >= maxOutcomes {
			o = outcomeOverflow
		} else {
			d.seen = append(d.seen, o)
		}
	}
	var list []durationCell
	if old := s.list.Load(); old != nil {
		list = *old
	}
	for i := range list {
		if list[i].outcome == o {
			return list[i].histogram
		}
	}
	grown := append(slices.Clone(list), durationCell{o, new(histogram)})
	s.list.Store(&grown)
	return grown[len(grown)-1].histogram
}

// duration is the sum of one outcome over all shards.
type duration struct {
	counts []uint64
	count  uint64
	sum    int64 // nanoseconds
}

// total adds the shards up.
func (d *durations) total() map[outcome]*duration {
	sums := make(map[outcome]*duration)
	d.shards.each(func(s *durationShard) {
		list := s.list.Load()
		if list == nil {
			return
		}
		for _, cell := range *list {
			sum := sums[cell.outcome]
			if sum == nil {
				sum = &duration{counts: make([]uint64, len(nanoBounds)+1)}
				sums[cell.outcome] = sum
			}
			sum.add(cell.histogram)
		}
	})
	return sums
}

func (d *duration) add(h *histogram) {
	for i := range h.counts {
		n := h.counts[i].Load()
		d.counts[i] += n
		d.count += n
	}
	d.sum += h.sum.Load()
}

// activeTable counts the exchanges in flight by method and scheme.
type activeTable struct {
	shards []activeShard
}

const schemes = 2

type activeShard struct {
	counts [len(methodNames) * schemes]atomic.Int64
	_      [64 - len(methodNames)*schemes*8%64]byte
}

func (t *activeTable) at(shard int, m message.Method, https bool) *atomic.Int64 {
	i := int(countedMethod(m)) * schemes
	if https {
		i++
	}
	return &t.shards[shard].counts[i]
}

// total is the count of a method and scheme over all shards.
func (t *activeTable) total(i int) (n int64) {
	for s := range t.shards {
		n += t.shards[s].counts[i].Load()
	}
	return n
}
