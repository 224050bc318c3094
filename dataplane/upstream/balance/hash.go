package balance

// Hash is a hash of a key, for tables and names that all processes share: FNV-1a
// (draft-eastlake-fnv), then mixed so that every bit counts. It is no defence
// against who chooses keys to collide.
func Hash[T string | []byte](key T) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * prime
	}
	return mix(h)
}

// mix is the finalizer of MurmurHash3 as SplitMix64 has it (Stafford's mix 13).
func mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
