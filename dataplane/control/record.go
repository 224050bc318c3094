package control

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Meta is what is known of a generation besides its content.
type Meta struct {
	Generation uint64    `json:"generation"` // counts activations on this node, from 1
	Version    string    `json:"version"`    // the writer's label
	Digest     string    `json:"digest"`     // of the content, in hex
	Term       uint64    `json:"term"`       // the writer's fencing term
	Writer     string    `json:"writer"`     // who wrote it, as it called itself
	Source     string    `json:"source"`     // how it came: "push", "apply", "rollback", "file"
	Resources  int       `json:"resources"`  // how many there are in it
	Applied    time.Time `json:"applied"`    // when it was stored, UTC
}

// A record is one file of the store:
//
//	offset  bytes  content
//	0       8      magic
//	8       4      format version, 1
//	12      4      length of the metadata
//	16      8      length of the body
//	24      32     SHA-256 of bytes 0 to 23, the metadata and the body
//	56             metadata as JSON, then the body
//
// Numbers are big-endian. The lengths are under the checksum, and a file with
// bytes missing or left over is corrupt.
const (
	recordMagic   = "HGATE\x00\r\n"
	recordFormat  = 1
	recordHeader  = 56
	maxRecordMeta = 64 << 10
)

var errTorn = errors.New("the file ends early")

func appendRecord(dst []byte, meta Meta, body []byte) ([]byte, error) {
	text, err := json.Marshal(meta)
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	if len(text) > maxRecordMeta {
		return nil, fmt.Errorf("metadata: %d bytes, the bound is %d", len(text), maxRecordMeta)
	}
	dst = append(dst, recordMagic...)
	dst = binary.BigEndian.AppendUint32(dst, recordFormat)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(text)))
	dst = binary.BigEndian.AppendUint64(dst, uint64(len(body)))
	sum := checksum(dst[len(dst)-24:], text, body)
	dst = append(dst, sum[:]...)
	dst = append(dst, text...)
	return append(dst, body...), nil
}

// parseRecord checks a whole record and returns its parts; body points into data.
func parseRecord(data []byte) (meta Meta, body []byte, err error) {
	if len(data) < recordHeader {
		return meta, nil, errTorn
	}
	if string(data[:8]) != recordMagic {
		return meta, nil, errors.New("bytes 0 to 7: not a record of this store")
	}
	if v := binary.BigEndian.Uint32(data[8:]); v != recordFormat {
		return meta, nil, fmt.Errorf("bytes 8 to 11: format version %d, this program reads %d", v, recordFormat)
	}
	text, body, err := splitRecord(data)
	if err != nil {
		return meta, nil, err
	}
	sum := checksum(data[:24], text, body)
	if !bytes.Equal(sum[:], data[24:recordHeader]) {
		return meta, nil, errors.New("the checksum does not match")
	}
	if err := json.Unmarshal(text, &meta); err != nil {
		return meta, nil, fmt.Errorf("metadata: %w", err)
	}
	return meta, body, nil
}

func splitRecord(data []byte) (text, body []byte, err error) {
	textLen := uint64(binary.BigEndian.Uint32(data[12:]))
	bodyLen := binary.BigEndian.Uint64(data[16:])
	rest := data[recordHeader:]
	if textLen > maxRecordMeta {
		return nil, nil, fmt.Errorf("bytes 12 to 15: metadata of %d bytes, the bound is %d", textLen, maxRecordMeta)
	}
	if textLen > uint64(len(rest)) || bodyLen > uint64(len(rest))-textLen {
		return nil, nil, errTorn
	}
	if bodyLen < uint64(len(rest))-textLen {
		return nil, nil, errors.New("there are bytes after the end")
	}
	return rest[:textLen], rest[textLen:], nil
}

func checksum(parts ...[]byte) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, p := range parts {
		h.Write(p)
	}
	h.Sum(sum[:0])
	return sum
}
