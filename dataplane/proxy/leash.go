package proxy

import "sync"

// A leash has the upstream hear at once of a client's stream that was reset: its
// connection is closed, or the stream to it reset, by whoever reads from the client.
// The exchange finds out as it wakes up.
type leash struct {
	mu     sync.Mutex
	victim victim // guarded by mu; nil: there is nobody to tell
}

// A victim is what ends when the client does not want its answer any more.
type victim interface{ kill() }

// A bell wakes who waits for nothing but time, or for several.
type bell chan struct{}

func newBell() bell { return make(bell, 1) }

func (b bell) kill() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// heed has the exchange hear of its client's stream from now on, before it waits for
// something else. Other clients are the lookout's.
func (x *exchange) heed() {
	if !x.heeds && x.stream != nil {
		x.heeds = true
		x.stream.OnReset(x.clientLeft)
	}
}

// heedless ends what heed began.
func (x *exchange) heedless() {
	if x.heeds {
		x.heeds = false
		x.stream.OnReset(nil)
		x.untie()
	}
}

// left is called when the client's stream was reset, on the goroutine that has
// heard of it.
func (x *exchange) left() {
	x.leash.mu.Lock()
	defer x.leash.mu.Unlock()
	if x.leash.victim != nil {
		x.leash.victim.kill()
	}
}

// tie puts somebody on the leash, until untie. It is false if the client has left
// before.
func (x *exchange) tie(v victim) bool {
	if x.stream == nil {
		return true
	}
	x.leash.mu.Lock()
	defer x.leash.mu.Unlock()
	if x.stream.Gone() {
		return false
	}
	x.leash.victim = v
	return true
}

// untie takes off the leash what is to be used for others.
func (x *exchange) untie() {
	if x.stream == nil {
		return
	}
	x.leash.mu.Lock()
	defer x.leash.mu.Unlock()
	x.leash.victim = nil
}
