package resolve

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// The bounds on how soon a name is looked up again.
const (
	// shortest holds whatever a TTL says, unless the name is to be refreshed more
	// often.
	shortest = time.Second
	// longestPause is between look-ups that fail, unless the name is refreshed
	// less often.
	longestPause = 10 * time.Second
)

// Change is what a look-up has changed.
type Change struct {
	Addresses bool
	Health    bool // it works or fails, and did not before
}

// Name is what is known of the addresses of a name, and when it is to be looked
// up again. The zero value knows nothing and is due.
//
// A look-up is good if it finds an address in either family. Then a family that
// has none any more loses those it had, and one of which there was no answer
// keeps them. If nothing is found, or nobody answers, all is kept.
type Name struct {
	families [2][]netip.Addr // the last good ones, sorted
	asked    bool            // a look-up has ended
	trouble  string          // why the last look-up was not good; "": it was
	failures int             // look-ups in a row that nobody answered
	next     int64           // when the next one is due, if asked
}

// Restore takes addresses that were good in another life. The name stays due.
func (n *Name) Restore(addresses []netip.Addr) {
	for _, a := range usable(addresses) {
		n.families[familyOf(a)] = append(n.families[familyOf(a)], a)
	}
}

func familyOf(a netip.Addr) int {
	if a.Is4() {
		return IPv4
	}
	return IPv6
}

// Observe takes a look-up that ended at now. The next one is due once the TTL is
// over, at the latest after refresh and no sooner than after a second, or after
// refresh if that is shorter. When nobody answers, it is after a second, then
// after twice as long each time, up to ten seconds or refresh. jitter, in [0,1),
// takes up to a tenth off that.
func (n *Name) Observe(now int64, a Answers, refresh time.Duration, jitter float64) Change {
	before, ill := n.families, n.trouble != ""
	trouble, wait := n.judge(&a, refresh)
	n.asked, n.trouble = true, trouble
	n.next = now + int64(wait) - int64(float64(wait)/10*jitter)
	if trouble == "" {
		n.accept(&a)
	}
	return Change{
		Addresses: !slices.Equal(before[IPv4], n.families[IPv4]) || !slices.Equal(before[IPv6], n.families[IPv6]),
		Health:    ill != (trouble != ""),
	}
}

// judge says what is wrong with a look-up, and how long to wait for the next.
func (n *Name) judge(a *Answers, refresh time.Duration) (trouble string, wait time.Duration) {
	found, ttl := 0, refresh
	for i := range a {
		found += len(a[i].Addresses)
		if len(a[i].Addresses) > 0 {
			ttl = min(ttl, a[i].TTL)
		}
	}
	switch err := firstError(a); {
	case found > 0:
		n.failures = 0
		return "", min(refresh, max(ttl, shortest))
	case err != nil:
		n.failures++
		return err.Error(), n.pause(refresh)
	}
	n.failures = 0
	ttl = min(a[IPv4].TTL, a[IPv6].TTL)
	trouble = "the name has no addresses"
	if a[IPv4].Missing || a[IPv6].Missing {
		trouble = "there is no such name (NXDOMAIN)"
	}
	return trouble, min(refresh, max(ttl, shortest))
}

func firstError(a *Answers) error {
	if a[IPv4].Err != nil {
		return a[IPv4].Err
	}
	return a[IPv6].Err
}

// pause is how long to wait after look-ups that nobody answered.
func (n *Name) pause(refresh time.Duration) time.Duration {
	pause, longest := min(refresh, shortest), max(refresh, longestPause)
	for range n.failures - 1 {
		if pause *= 2; pause >= longest {
			return longest
		}
	}
	return pause
}

// accept replaces the addresses of the families that there was an answer for.
func (n *Name) accept(a *Answers) {
	for i := range a {
		if a[i].Err == nil {
			n.families[i] = usable(a[i].Addresses)
		}
	}
}

// Hasten is for a name that is to be refreshed more often from now on.
func (n *Name) Hasten(now int64, refresh time.Duration) {
	n.next = min(n.next, now+int64(refresh))
}

// Wait is how long there is nothing to do for the name, 0 or less if it is due.
func (n *Name) Wait(now int64) time.Duration {
	if !n.asked {
		return 0
	}
	return time.Duration(n.next - now)
}

// State is what is known at the moment.
func (n *Name) State() State {
	s := State{Addresses: interleave(n.families), Asked: n.asked, Trouble: n.trouble, Next: n.next}
	if all := len(n.families[IPv4]) + len(n.families[IPv6]); all > MaxAddresses {
		s.Note = fmt.Sprintf("it has %d addresses, of which %d are used", all, MaxAddresses)
	}
	return s
}

// State is what is known of a name.
type State struct {
	Addresses []netip.Addr // of both families in turn; the last good ones
	Asked     bool         // a look-up has ended, good or not
	Trouble   string       // why the last one was not good; "": it was, or there was none
	Note      string       // what else is to be said, or ""
	Next      int64        // when it is looked up next, of socket.Now; if Asked
}
