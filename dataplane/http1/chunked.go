package http1

// The chunked transfer coding (RFC 9112 section 7.1) as a state machine over
// bytes:
//
//	chunk   = 1*HEXDIG *( BWS ";" BWS name [ BWS "=" BWS ( token / quoted-string ) ] ) CRLF data CRLF
//	body    = *chunk 1*"0" [ extensions ] CRLF *( field-line CRLF ) CRLF
//
// White space where only BWS stands has to be read (RFC 9110 section 5.6.3), and
// goes no further, since bodies are framed anew. Anywhere else it is at fault.

// chunkState says what the next byte is.
type chunkState uint8

const (
	chunkSizeFirst  chunkState = iota // the first digit of a size
	chunkSize                         // a further digit, or what follows the size
	chunkExtFirst                     // the first byte of an extension's name
	chunkExt                          // a further byte of it, or what follows
	chunkExtSpace                     // behind white space after a name
	chunkValueFirst                   // the first byte of an extension's value
	chunkValue                        // a further byte of a token, or what follows
	chunkQuoted                       // inside a quoted string
	chunkEscaped                      // after a backslash in it
	chunkQuotedEnd                    // after a quoted string
	chunkSpace                        // behind white space after a size or a value
	chunkLineLF                       // the LF of a chunk line
	chunkData                         // data
	chunkDataCR                       // the CR after data
	chunkDataLF                       // the LF after data
	chunkTrailer                      // the trailer section
	chunkDone                         // nothing more
)

const (
	// maxSizeDigits is what a 64-bit size can need. Zeros before it count like
	// extensions from there on.
	maxSizeDigits = 16
	// maxOverhead is how many bytes of chunk extensions may be outstanding; each
	// byte of data pays for one. Extensions are skipped, so that without a bound
	// a peer could keep us reading for nothing.
	maxOverhead = 8 << 10
)

// nextChunked consumes framing up to and with the next piece of data.
func (d *Decoder) nextChunked(buf []byte) (data []byte, n int, err *Error) {
	for n < len(buf) {
		switch d.state {
		case chunkData:
			size := int(min(int64(len(buf)-n), d.remaining))
			d.remaining -= int64(size)
			d.overhead = max(0, d.overhead-size)
			if d.remaining == 0 {
				d.state = chunkDataCR
			}
			return buf[n : n+size], n + size, nil
		case chunkTrailer:
			used, done, err := d.trailer.feed(buf[n:], &d.limits)
			if err != nil {
				err.Offset = n
				return nil, n, err
			}
			if done {
				d.state = chunkDone
			}
			n += used
		case chunkDone:
			return nil, n, nil
		default:
			if reason := d.frame(buf[n]); reason != "" {
				return nil, n, bad(n, reason)
			}
			n++
		}
	}
	return nil, n, nil
}

// frame takes one byte of framing; the reason says why it cannot stand there.
func (d *Decoder) frame(c byte) (reason string) {
	switch d.state {
	case chunkSizeFirst, chunkSize:
		return d.frameSize(c)
	case chunkLineLF:
		return d.endLine(c)
	case chunkDataCR:
		if c != '\r' {
			return "chunk data longer than its size"
		}
		d.state = chunkDataLF
		return ""
	case chunkDataLF:
		if c != '\n' {
			return "CR without LF after chunk data"
		}
		d.state, d.digits = chunkSizeFirst, 0
		return ""
	}
	if d.overhead++; d.overhead > maxOverhead {
		return "too many bytes of chunk extensions"
	}
	return d.frameExtension(c)
}

// frameSize takes a digit or what follows the digits.
func (d *Decoder) frameSize(c byte) string {
	switch {
	case is(c, classHex):
		if !d.addDigit(c) {
			return "chunk size too large"
		}
		d.state = chunkSize
		return ""
	case d.state == chunkSizeFirst:
		return "chunk size that is not a hex number"
	}
	if d.ends(c) {
		return ""
	}
	if c == '\n' {
		return "LF without CR after a chunk size"
	}
	return "chunk size that is not a hex number"
}

// ends takes what may follow a size or a value, or white space before that.
func (d *Decoder) ends(c byte) bool { return d.after(c) || d.blank(c, chunkSpace) }

// after takes what may follow a size or a whole extension.
func (d *Decoder) after(c byte) bool {
	if c == '\r' {
		d.state = chunkLineLF
		return true
	}
	return d.next(c)
}

// next takes what begins another extension.
func (d *Decoder) next(c byte) bool {
	if c != ';' {
		return false
	}
	d.state = chunkExtFirst
	return true
}

// gives takes what stands between the name of an extension and its value.
func (d *Decoder) gives(c byte) bool {
	if c != '=' {
		return false
	}
	d.state = chunkValueFirst
	return true
}

// blank takes white space, and says what it stands behind.
func (d *Decoder) blank(c byte, behind chunkState) bool {
	if c != ' ' && c != '\t' {
		return false
	}
	d.state = behind
	return true
}

// endLine takes the LF of a chunk line; size 0 is the last chunk.
func (d *Decoder) endLine(c byte) string {
	switch {
	case c != '\n':
		return "CR without LF in a chunk line"
	case d.remaining == 0:
		d.state = chunkTrailer
	default:
		d.state = chunkData
	}
	return ""
}

// frameExtension takes a byte of a chunk extension (RFC 9112 section 7.1.1).
func (d *Decoder) frameExtension(c byte) string {
	token := is(c, classToken)
	var ok bool
	switch d.state {
	case chunkExtFirst:
		ok = d.blank(c, chunkExtFirst) || d.begins(token, chunkExt)
	case chunkExt:
		ok = token || d.gives(c) || d.after(c) || d.blank(c, chunkExtSpace)
	case chunkExtSpace:
		ok = d.gives(c) || d.next(c) || d.blank(c, chunkExtSpace)
	case chunkValueFirst:
		ok = d.blank(c, chunkValueFirst) || d.begins(c == '"', chunkQuoted) || d.begins(token, chunkValue)
	case chunkValue:
		ok = token || d.ends(c)
	case chunkQuotedEnd:
		ok = d.ends(c)
	case chunkSpace:
		ok = d.next(c) || d.blank(c, chunkSpace)
	default:
		ok = d.frameQuoted(c)
	}
	if !ok {
		return "malformed chunk extension"
	}
	return ""
}

// begins goes on to a state if that is what the byte begins.
func (d *Decoder) begins(ok bool, state chunkState) bool {
	if ok {
		d.state = state
	}
	return ok
}

// frameQuoted takes a byte of a quoted string (RFC 9110 section 5.6.4).
func (d *Decoder) frameQuoted(c byte) bool {
	ok := is(c, classReason)
	switch {
	case d.state == chunkEscaped:
		d.state = chunkQuoted
	case c == '"':
		d.state = chunkQuotedEnd
	case c == '\\':
		d.state = chunkEscaped
	}
	return ok
}
