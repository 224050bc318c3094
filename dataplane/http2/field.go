package http2

import "github.com/headgate/headgate/dataplane/message"

// field is one field of a header block, and what is to be said of it. An entry
// of a table is judged once, when it is put there.
type field struct {
	name, value []byte
	id          message.ID
	pseudo      pseudo // pseudoCount: none
	known       bool   // name is never written to
	kept        bool   // name and value live as long as the head
	nameFlaw    flaw
	flaw        flaw
}

// size is what a field counts for (RFC 7541 section 4.1, RFC 9113 section 10.5.1).
func (f *field) size() int { return len(f.name) + len(f.value) + 32 }

// textLen is how much of that a table has to hold.
func (f *field) textLen() int {
	if f.known {
		return len(f.value)
	}
	return len(f.name) + len(f.value)
}

// flaw is why a field makes its message malformed.
type flaw uint8

const (
	flawless flaw = iota
	flawName
	flawValue
	flawPseudo
	flawConnection
)

var flawTexts = [...]string{
	flawName:       "byte not allowed in a field name",
	flawValue:      "byte or white space not allowed in a field value",
	flawPseudo:     "unknown pseudo-header field",
	flawConnection: "connection-specific field",
}

// judgeName finds out what the name is.
func (f *field) judgeName() {
	f.pseudo = pseudoCount
	if len(f.name) > 0 && f.name[0] == ':' {
		f.judgePseudo()
		return
	}
	f.id = message.Intern(f.name)
	switch {
	case len(f.name) == 0 || !all(f.name, className):
		f.id, f.nameFlaw = message.Other, flawName
	case connectionSpecific[f.id]:
		f.nameFlaw = flawConnection // RFC 9113 section 8.2.2
	}
	if f.id != message.Other {
		f.name, f.known = knownNames[f.id], true
	}
}

func (f *field) judgePseudo() {
	f.pseudo = pseudoOf(f.name)
	if f.pseudo == pseudoCount {
		f.nameFlaw = flawPseudo
		return
	}
	f.name, f.known = pseudoNames[f.pseudo], true
}

// judgeValue finds out what is wrong with the field, once its name is judged.
func (f *field) judgeValue() {
	f.flaw = f.nameFlaw
	switch {
	case f.flaw != flawless:
	case !validValue(f.value):
		f.flaw = flawValue
	case f.id == message.TE && string(f.value) != "trailers":
		f.flaw = flawConnection
	}
}

// validValue checks a value (RFC 9113 section 8.2.1).
func validValue(v []byte) bool {
	if len(v) == 0 {
		return true
	}
	first, last := v[0], v[len(v)-1]
	return first != ' ' && first != '\t' && last != ' ' && last != '\t' && all(v, classValue)
}

var connectionSpecific = [256]bool{
	message.Connection: true, message.KeepAlive: true, message.ProxyConnection: true,
	message.TransferEncoding: true, message.Upgrade: true,
}

// pseudo is a pseudo-header field (RFC 9113 section 8.3).
type pseudo uint8

const (
	pseudoMethod pseudo = iota
	pseudoScheme
	pseudoAuthority
	pseudoPath
	pseudoProtocol // RFC 8441 section 4
	pseudoStatus
	pseudoCount
)

var pseudoNames = [pseudoCount][]byte{
	[]byte(":method"), []byte(":scheme"), []byte(":authority"),
	[]byte(":path"), []byte(":protocol"), []byte(":status"),
}

func pseudoOf(name []byte) pseudo {
	for p := range pseudoNames {
		if string(pseudoNames[p]) == string(name) {
			return pseudo(p)
		}
	}
	return pseudoCount
}
