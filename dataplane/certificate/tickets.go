package certificate

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"sync"
	"time"
)

const (
	// ticketAge is how long a secret makes new tickets.
	ticketAge = 12 * time.Hour
	// ticketSecrets is how many secrets are good for tickets at a time: the
	// newest makes them, the others only open theirs. A ticket is good for 12
	// to 24 hours.
	ticketSecrets = 2
)

// tickets are the secrets that the keys of session tickets come from. They are
// one for all listeners and outlive every snapshot; what must not share tickets
// gets keys of its own out of them. The zero value is ready.
type tickets struct {
	mu sync.Mutex
	// guarded by mu
	secrets [][sha256.Size]byte // newest first
	until   time.Time           // when the newest grows old
}

// at is the secrets that are good at a time, newest first, and when others will
// be.
func (t *tickets) at(now time.Time) (secrets [][sha256.Size]byte, until time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.secrets) == 0 || !now.Before(t.until) {
		t.rotate(now)
	}
	return t.secrets, t.until
}

// rotate makes a new secret and forgets what is too old, which is all of them
// if nobody asked for long. The caller holds mu.
func (t *tickets) rotate(now time.Time) {
	kept := t.secrets
	if now.Sub(t.until) >= ticketAge {
		kept = nil
	}
	var fresh [sha256.Size]byte
	_, _ = rand.Read(fresh[:]) // it never fails
	next := append([][sha256.Size]byte{fresh}, kept...)
	t.secrets = next[:min(len(next), ticketSecrets)]
	t.until = now.Add(ticketAge)
}

// ticketKeys are the keys for one purpose. Tickets that were made for another
// cannot be opened with them.
func ticketKeys(secrets [][sha256.Size]byte, purpose string) ([][32]byte, error) {
	keys := make([][32]byte, len(secrets))
	for i := range secrets {
		key, err := hkdf.Expand(sha256.New, secrets[i][:], "headgate session ticket\x00"+purpose, len(keys[i]))
		if err != nil {
			return nil, err
		}
		copy(keys[i][:], key)
	}
	return keys, nil
}
