package snapshot

// nearby is how far from where it is expected an element is looked for, and how
// many times that may fail before all elements are indexed.
const nearby = 32

// finder finds the elements of one list in another that differs little from it:
// most are where they were, or all shifted by a few. The zero value, with n and
// key set, is ready for use.
type finder[K comparable] struct {
	n   int           // elements of the other list
	key func(i int) K // what number i of them is known by

	shift  int // where the last one was found, from where it was looked for
	missed int
	at     map[K]int // nil until much has been missed
}

// find gives the place in the other list of an element that is number index of
// this one, or -1. It may miss one that is far from its place.
func (f *finder[K]) find(k K, index int) int {
	if f.is(k, index+f.shift) {
		return index + f.shift
	}
	if f.n == 0 {
		return -1
	}
	if f.missed == nearby {
		return f.lookUp(k)
	}
	for d := 1; d <= nearby; d++ {
		for _, i := range [2]int{index + f.shift + d, index + f.shift - d} {
			if f.is(k, i) {
				f.shift = i - index
				return i
			}
		}
	}
	f.missed++
	return -1
}

func (f *finder[K]) is(k K, i int) bool { return i >= 0 && i < f.n && f.key(i) == k }

func (f *finder[K]) lookUp(k K) int {
	if f.at == nil {
		f.at = make(map[K]int, f.n)
		for i := range f.n {
			f.at[f.key(i)] = i
		}
	}
	if i, ok := f.at[k]; ok {
		return i
	}
	return -1
}

// finderOf finds resources by content.
func finderOf(list []sum) finder[sum] {
	return finder[sum]{n: len(list), key: func(i int) sum { return list[i] }}
}
