package balance

import (
	"cmp"
	"math/bits"
	"slices"
)

// sizes are those of a Maglev table. All are prime. A share is off by up to one slot
// in size, so there are a hundred slots for each element, as long as there is a
// larger table. A choice reads one slot at random and waits for it: the second size,
// of 256 KiB, still fits in the cache of a core, the last one, of 1.25 MiB, does not.
// When the number of elements passes from one size to another, all hashes move: so
// there are few sizes.
var sizes = [...]int{65_537, 131_101, 655_373}

// Member is an element of a Maglev table.
type Member struct {
	ID     uint64 // a hash of its name; equal in all processes
	Weight int    // 0 or less: in no table
	// Presence is how much of its share it takes at the moment, in percent. What
	// it does not take goes to the others, and only that moves.
	Presence int
}

// Maglev maps hashes to members so that each has its share and few hashes move
// when members change (Eisenbud et al., Maglev, NSDI 2016, section 3.4).
//
// The table is filled as if all members were present. Then the slots of those
// that are not are given to the others in the same manner. So a member that
// fails or comes back moves its own hashes and no others; only one that is added
// or removed disturbs some of the rest.
type Maglev struct {
	narrow []uint16 // a slot's member by index
	wide   []int32  // instead, if there are more members than that can tell apart
}

// NewMaglev fills a table. It is nil if nobody is present.
func NewMaglev(members []Member) *Maglev { return newMaglev(members, tableSize(len(members))) }

func tableSize(members int) int {
	for _, size := range sizes {
		if size >= 100*members {
			return size
		}
	}
	return sizes[len(sizes)-1]
}

func newMaglev(members []Member, size int) *Maglev {
	if !slices.ContainsFunc(members, func(m Member) bool { return m.Weight > 0 && m.Presence > 0 }) {
		return nil
	}
	f := newFilling(members, size)
	f.fill(f.turns(func(m *Member) int { return m.Weight }))
	if f.withdraw() {
		f.fill(f.turns(func(m *Member) int { return m.Weight * min(m.Presence, 100) }))
	}
	return pack(f.slots, len(members))
}

func pack(slots []int32, members int) *Maglev {
	if members > 1<<16 {
		return &Maglev{wide: slots}
	}
	m := &Maglev{narrow: make([]uint16, len(slots))}
	for i, member := range slots {
		m.narrow[i] = uint16(member)
	}
	return m
}

func (m *Maglev) size() int { return max(len(m.narrow), len(m.wide)) }

func (m *Maglev) at(slot int) int {
	if m.wide != nil {
		return int(m.wide[slot])
	}
	return int(m.narrow[slot])
}

func (m *Maglev) slot(hash uint64) int {
	slot, _ := bits.Mul64(hash, uint64(m.size()))
	return int(slot)
}

// Choose returns the index of the member that a hash belongs to. The hash must
// be well mixed, as Hash is.
func (m *Maglev) Choose(hash uint64) int { return m.at(m.slot(hash)) }

// After is the choice for a hash when those before it, in a row that is the same
// for equal hashes, are not to be had. It may return one more than once.
func (m *Maglev) After(hash uint64, skip int) int {
	return m.at((m.slot(hash) + skip) % m.size())
}

// filling is a table that is being filled.
type filling struct {
	members []Member
	order   []int32 // of members, by ID: the table must not depend on how they are listed
	slots   []int32 // the member's index, -1: free
	turn    []int32 // how many slots that member had taken before this one
	taken   []int32 // by member
	free    int
}

func newFilling(members []Member, size int) *filling {
	f := &filling{
		members: members, order: make([]int32, len(members)),
		slots: make([]int32, size), turn: make([]int32, size), taken: make([]int32, len(members)),
		free: size,
	}
	for i := range f.order {
		f.order[i] = int32(i)
	}
	slices.SortStableFunc(f.order, func(a, b int32) int { return cmp.Compare(members[a].ID, members[b].ID) })
	for i := range f.slots {
		f.slots[i] = -1
	}
	return f
}

// turns is the order in which members take slots, by a weight.
func (f *filling) turns(weight func(*Member) int) []int32 {
	weights := make([]int, len(f.order))
	for place, i := range f.order {
		weights[place] = weight(&f.members[i])
	}
	turns := slices.Clone(Sequence(weights))
	for i, place := range turns {
		turns[i] = f.order[place]
	}
	return turns
}

// permutation is the order in which a member prefers slots.
type permutation struct{ next, skip uint32 }

func preference(id uint64, size int) permutation {
	h := mix(id ^ 0x9e3779b97f4a7c15)
	return permutation{next: uint32(id % uint64(size)), skip: uint32(h%uint64(size-1)) + 1}
}

// fill gives the free slots away: each in turn takes the one it likes best.
func (f *filling) fill(turns []int32) {
	preferences := make([]permutation, len(f.members))
	for i := range preferences {
		preferences[i] = preference(f.members[i].ID, len(f.slots))
	}
	size := uint32(len(f.slots))
	for at := 0; f.free > 0; at++ {
		if at == len(turns) {
			at = 0
		}
		i := turns[at]
		p := &preferences[i]
		for f.slots[p.next] >= 0 {
			if p.next += p.skip; p.next >= size {
				p.next -= size
			}
		}
		f.slots[p.next], f.turn[p.next] = i, f.taken[i]
		f.taken[i]++
		f.free--
	}
}

// withdraw frees the slots that members took last and are not present for, and
// reports whether there are any.
func (f *filling) withdraw() bool {
	for slot, i := range f.slots {
		kept := int64(f.taken[i]) * int64(min(f.members[i].Presence, 100))
		if int64(f.turn[slot])*100 >= kept {
			f.slots[slot] = -1
			f.free++
		}
	}
	return f.free > 0
}
