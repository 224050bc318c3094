package http3

import (
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/quic-go/qpack"

	"github.com/headgate/headgate/dataplane/http2"
	"github.com/headgate/headgate/dataplane/message"
)

// decode reads an encoded field section. What a bound of the section leaves out is
// not decoded. cut says that p is only the beginning of the section, which is too
// large as a whole.
func decode(p []byte, into *http2.Section, cut bool) error {
	next := qpack.NewDecoder().Decode(p)
	for more := true; more; {
		field, err := next()
		switch {
		case errors.Is(err, io.EOF) && !cut:
			return nil
		case err != nil && cut:
			into.Oversize()
			return nil
		case err != nil:
			return connError(DecompressionFailed, "bad field section")
		}
		more = into.Add(field.Name, field.Value)
	}
	return nil
}

// encoder writes one HEADERS frame at a time.
type encoder struct {
	out   []byte // frameHeaderBytes, then the section
	qpack *qpack.Encoder
}

var encoders = sync.Pool{New: func() any {
	e := &encoder{out: make([]byte, 0, 1<<10)}
	e.qpack = qpack.NewEncoder(e)
	return e
}}

// keptEncoderBytes is the largest buffer that an encoder keeps.
const keptEncoderBytes = 16 << 10

func (e *encoder) release() {
	if cap(e.out) <= keptEncoderBytes {
		encoders.Put(e)
	}
}

// Write is where the encoder of QPACK writes to.
func (e *encoder) Write(p []byte) (int, error) {
	e.out = append(e.out, p...)
	return len(p), nil
}

// frame is a HEADERS frame of a status, if it is not 0, and fields. It is valid
// until the encoder is used again.
func (e *encoder) frame(status int, fields *message.Fields) []byte {
	e.out = append(e.out[:0], make([]byte, frameHeaderBytes)...)
	if status != 0 {
		e.add(":status", strconv.Itoa(status))
	}
	list := fields.All()
	for i := range list {
		if f := &list[i]; http2.Carried(f) {
			e.add(nameOf(f), string(f.Value))
		}
	}
	_ = e.qpack.Close() // never fails
	var room [frameHeaderBytes]byte
	header := appendFrame(room[:0], frameHeaders, len(e.out)-frameHeaderBytes)
	start := frameHeaderBytes - len(header)
	copy(e.out[start:], header)
	return e.out[start:]
}

func (e *encoder) add(name, value string) {
	_ = e.qpack.WriteField(qpack.HeaderField{Name: name, Value: value}) // never fails: Write does not
}

// nameOf is the name of a field in lower case.
func nameOf(f *message.Field) string {
	if f.ID != message.Other {
		return f.ID.String()
	}
	return strings.ToLower(string(f.Name))
}
