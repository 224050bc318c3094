package socket

import "sync"

// The sizes of buffers in bytes. A head and a small body fit into the first;
// heads up to the largest limit that is allowed, and bodies that are known to
// be large, use the second: with small buffers a large body costs several
// times the system calls.
const (
	SmallBuffer = 16 << 10
	LargeBuffer = 128 << 10
)

var (
	smallPool = sync.Pool{New: func() any { return &new(spaced).buffer }}
	largePool = sync.Pool{New: func() any { return new([LargeBuffer]byte) }}
)

// spaced keeps buffers from beginning a power of two apart. Caches put what is a
// power of two apart in the same place, and it is the beginning of a buffer that
// is used: a few dozen would push each other out. The size is one that the
// allocator has.
type spaced struct {
	buffer [SmallBuffer]byte
	_      [2688]byte
}

// GetBuffer returns a buffer of SmallBuffer bytes, or of LargeBuffer bytes if
// size is more than that.
func GetBuffer(size int) []byte {
	if size <= SmallBuffer {
		return smallPool.Get().(*[SmallBuffer]byte)[:]
	}
	return largePool.Get().(*[LargeBuffer]byte)[:]
}

// PutBuffer takes a buffer of GetBuffer back; others are left to the collector.
func PutBuffer(b []byte) {
	switch cap(b) {
	case SmallBuffer:
		smallPool.Put((*[SmallBuffer]byte)(b[:SmallBuffer]))
	case LargeBuffer:
		largePool.Put((*[LargeBuffer]byte)(b[:LargeBuffer]))
	}
}
