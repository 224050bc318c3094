package resolve

import (
	"net/netip"
	"slices"
	"time"
)

// MaxAddresses bounds the addresses of a name. Of more, the first are used, in
// the order of State.Addresses, so that the same ones are used each time.
const MaxAddresses = 256

// The families of addresses, as indices of Answers.
const (
	IPv4 = iota // of A records
	IPv6        // of AAAA records
)

// Answer is what the question for the addresses of one family came to.
type Answer struct {
	Addresses []netip.Addr
	TTL       time.Duration // how long the answer may be kept, also that there are none; 0: not at all
	Missing   bool          // there are none because the name does not exist
	Err       error         // there was no answer; if nil, no Addresses means that there are none
}

// Answers are those of one look-up, by family.
type Answers [2]Answer

// failed is a look-up without an answer.
func failed(err error) Answers { return Answers{{Err: err}, {Err: err}} }

// usable sorts addresses and leaves out doubles and what nobody can be reached
// at: 0.0.0.0 and ::, which to connect means this host, and multicast.
func usable(list []netip.Addr) []netip.Addr {
	out := make([]netip.Addr, 0, len(list))
	for _, a := range list {
		a = a.Unmap().WithZone("")
		if a.IsValid() && !a.IsUnspecified() && !a.IsMulticast() {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

// interleave takes the addresses of both families in turn, as RFC 8305 section 4
// wants them, IPv6 first, up to MaxAddresses.
func interleave(families [2][]netip.Addr) []netip.Addr {
	four, six := families[IPv4], families[IPv6]
	size := min(len(four)+len(six), MaxAddresses)
	out := make([]netip.Addr, 0, size)
	for i := 0; len(out) < size; i++ {
		if i < len(six) {
			out = append(out, six[i])
		}
		if i < len(four) && len(out) < size {
			out = append(out, four[i])
		}
	}
	return out
}
