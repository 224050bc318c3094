package balance

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// equals are so many members of weight 1.
func equals(n int) []Member {
	list := make([]Member, n)
	for i := range list {
		list[i] = Member{ID: Hash(fmt.Sprintf("10.0.%d.%d:8080", i/250, i%250)), Weight: 1, Presence: 100}
	}
	return list
}

// owners is the ID behind each slot.
func owners(m *Maglev, members []Member) []uint64 {
	list := make([]uint64, m.size())
	for slot := range list {
		list[slot] = members[m.at(slot)].ID
	}
	return list
}

// moved is the part of the slots that have another owner.
func moved(before, after []uint64) float64 {
	n := 0
	for i := range before {
		if before[i] != after[i] {
			n++
		}
	}
	return float64(n) / float64(len(before))
}

func TestMaglevShares(t *testing.T) {
	members := equals(100)
	for i := range members {
		members[i].Weight = 1 + i%4
	}
	m := NewMaglev(members)
	counts := make([]int, len(members))
	for slot := range m.size() {
		counts[m.at(slot)]++
	}
	for i, n := range counts {
		want := float64(members[i].Weight) / 250
		if got := float64(n) / float64(sizes[0]); math.Abs(got-want) > 0.005*want {
			t.Errorf("member %d of weight %d: %v of the slots, want %v", i, members[i].Weight, got, want)
		}
	}
}

// The table must not depend on the order in which members are listed, or data
// planes would disagree.
func TestMaglevIgnoresOrder(t *testing.T) {
	members := equals(20)
	before := owners(NewMaglev(members), members)
	slices.Reverse(members)
	if part := moved(before, owners(NewMaglev(members), members)); part != 0 {
		t.Errorf("%v moved", part)
	}
}

// One of a hundred is lost. Ideally a hundredth of the keys moves.
func TestMaglevDisturbance(t *testing.T) {
	members := equals(100)
	before := owners(NewMaglev(members), members)
	worstFailed, worstRemoved := 0.0, 0.0
	for lost := range 8 {
		failed := slices.Clone(members)
		failed[lost].Presence = 0
		worstFailed = max(worstFailed, moved(before, owners(NewMaglev(failed), failed)))
		removed := slices.Delete(slices.Clone(members), lost, lost+1)
		worstRemoved = max(worstRemoved, moved(before, owners(NewMaglev(removed), removed)))
	}
	t.Logf("moved at most, of 1%% ideally: %.3f%% when it fails, %.3f%% when it is removed", 100*worstFailed, 100*worstRemoved)
	if worstFailed > 0.0101 {
		t.Errorf("%v moved when one failed", worstFailed)
	}
	if worstRemoved > 0.03 {
		t.Errorf("%v moved when one was removed", worstRemoved)
	}
}

// Whoever is away, what the present ones had stays with them, nobody who is away
// has a slot, and the shares of the others are even.
func TestMaglevMovesOnlyWhatMust(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := equals(rapid.IntRange(1, 40).Draw(t, "members"))
		for i := range members {
			members[i].Weight = rapid.IntRange(0, 3).Draw(t, "weight")
		}
		if !slices.ContainsFunc(members, func(m Member) bool { return m.Weight > 0 }) {
			t.Skip("nobody has a weight")
		}
		full := newMaglev(members, 1021)
		away := slices.Clone(members)
		for i := range away {
			away[i].Presence = rapid.SampledFrom([]int{0, 10, 55, 100}).Draw(t, "presence")
		}
		now := newMaglev(away, 1021)
		if now == nil {
			for _, m := range away {
				if m.Weight > 0 && m.Presence > 0 {
					t.Fatal("no table, though somebody is there")
				}
			}
			return
		}
		kept, had := make([]int, len(members)), make([]int, len(members))
		for slot := range full.size() {
			i := full.at(slot)
			had[i]++
			switch after := now.at(slot); {
			case away[after].Presence == 0 || away[after].Weight == 0:
				t.Fatalf("slot %d belongs to %d, who is away", slot, after)
			case after == i:
				kept[i]++
			case away[i].Presence == 100:
				t.Fatalf("slot %d moved from %d, who is there, to %d", slot, i, after)
			}
		}
		for i := range members {
			if least := had[i] * away[i].Presence / 100; kept[i] < least {
				t.Fatalf("member %d kept %d of %d slots with a presence of %d", i, kept[i], had[i], away[i].Presence)
			}
		}
	})
}

func TestMaglevSizes(t *testing.T) {
	for n, want := range map[int]int{0: 65_537, 655: 65_537, 656: 131_101, 1311: 131_101, 1312: 655_373, 100_000: 655_373} {
		if got := tableSize(n); got != want {
			t.Errorf("%d members: %d slots", n, got)
		}
	}
	for _, n := range sizes {
		for d := 2; d*d <= n; d++ {
			if n%d == 0 {
				t.Errorf("%d is not prime: %d", n, d)
			}
		}
	}
}

// A table of indices that do not fit in 16 bits says the same as one of those that do.
func TestMaglevOfManyMembers(t *testing.T) {
	const n = 1<<16 + 1
	slots := make([]int32, 3*n)
	for i := range slots {
		slots[i] = int32(i % n)
	}
	if m := pack(slots, n); m.at(n-1) != n-1 || m.Choose(math.MaxUint64) != n-1 || m.size() != 3*n {
		t.Errorf("%d of %d slots leads to %d", n-1, m.size(), m.at(n-1))
	}
	if m := pack(slots[:n-1], n-1); m.at(n-2) != n-2 || m.Choose(math.MaxUint64) != n-2 || m.wide != nil {
		t.Errorf("%d of %d slots leads to %d", n-2, m.size(), m.at(n-2))
	}
}

func TestMaglevAfter(t *testing.T) {
	m := newMaglev(equals(3), 1021)
	seen := map[int]bool{}
	for skip := range 64 {
		seen[m.After(math.MaxUint64, skip)] = true
	}
	if len(seen) != 3 {
		t.Errorf("met %v", seen)
	}
	if NewMaglev(nil) != nil {
		t.Error("a table of nobody")
	}
}

func TestHashSpreads(t *testing.T) {
	const n = 100_000
	var counts [64]int
	for i := range n {
		h := Hash(fmt.Sprint("user-", i))
		for bit := range counts {
			counts[bit] += int(h >> bit & 1)
		}
	}
	for bit, ones := range counts {
		if math.Abs(float64(ones)/n-0.5) > 0.01 {
			t.Errorf("bit %d is set in %d of %d", bit, ones, n)
		}
	}
	if Hash("a") != Hash([]byte("a")) || Hash("a") == Hash("b") || Hash("") == 0 {
		t.Error("not a hash")
	}
}

func BenchmarkNewMaglev(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		members := equals(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				NewMaglev(members)
			}
		})
	}
}
