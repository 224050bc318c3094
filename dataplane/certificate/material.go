package certificate

import (
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
)

// Kind is what a thing of the store is.
type Kind uint8

// The kinds of things.
const (
	KindCertificate Kind = iota
	KindBundle
)

// Certificate is a certificate as it lives.
type Certificate struct {
	material
	current atomic.Pointer[tls.Certificate]
	issued  *issuance // nil: it is in files or was given
}

// Current is what the next handshake shows. It must not be changed.
func (c *Certificate) Current() *tls.Certificate { return c.current.Load() }

// Bundle is a set of authorities as it lives.
type Bundle struct {
	material
	current atomic.Pointer[Roots]
}

// Current is what the next handshake verifies against. It must not be changed.
func (b *Bundle) Current() *Roots { return b.current.Load() }

// from reports whether the certificate has this source.
func (c *Certificate) from(s Source) bool {
	if c.issued != nil || s.ACME != nil {
		return c.issued != nil && s.ACME != nil && c.issued.source.same(s.ACME)
	}
	return c.same(s.Chain, s.Key)
}

func newCertificate(s Source) *Certificate {
	c := &Certificate{material: material{kind: KindCertificate, name: s.Name, texts: []Text{s.Chain, s.Key}, soon: soon}}
	c.adopt = func(texts [][]byte) (time.Time, error) {
		pair, err := ParsePair(texts[0], texts[1])
		if err != nil {
			return time.Time{}, err
		}
		c.current.Store(pair)
		return pair.Leaf.NotAfter, nil
	}
	return c
}

func newBundle(s BundleSource) *Bundle {
	b := &Bundle{material: material{kind: KindBundle, name: s.Name, texts: []Text{s.Text}, soon: soon}}
	b.adopt = func(texts [][]byte) (time.Time, error) {
		roots, err := ParseRoots(texts[0])
		if err != nil {
			return time.Time{}, err
		}
		b.current.Store(roots)
		return roots.Expires, nil
	}
	return b
}

// material is what both kinds have in common: texts that can change, and the
// last good thing made of them.
type material struct {
	kind  Kind
	name  string
	texts []Text
	adopt func(texts [][]byte) (expires time.Time, err error) // puts new texts to use

	// Owned by who makes it, and by the store's loop once it is committed.
	read    [sha256.Size]byte // what was read last, good or not
	broken  error             // why that is not in use; nil: it is
	failed  int               // reads that found it broken in the same way, one after the other
	expires time.Time         // of what is in use
	said    verdict           // last
	lacks   string            // why it is not what an authority should have given; "": it is
	soon    time.Duration     // before its end is it spoken of
}

// refresh reads the texts and puts them to use if they are other ones and good.
// What was in use stays otherwise. It reports whether something else is in use.
func (m *material) refresh(folder string) (changed bool) {
	before := m.broken
	changed = m.take(folder)
	switch {
	case m.broken == nil:
		m.failed = 0
	case before == nil || before.Error() != m.broken.Error():
		m.failed = 1
	default:
		m.failed++
	}
	return changed
}

func (m *material) take(folder string) (changed bool) {
	texts := make([][]byte, len(m.texts))
	sum := sha256.New()
	for i, t := range m.texts {
		data, err := t.bytes(folder)
		if err != nil {
			m.read, m.broken = [sha256.Size]byte{}, &PartError{Part: i, Err: err}
			return false
		}
		texts[i] = data
		one := sha256.Sum256(data)
		sum.Write(one[:])
	}
	before := m.read
	if sum.Sum(m.read[:0]); m.read == before {
		return false
	}
	expires, err := m.adopt(texts)
	if m.broken = err; err != nil {
		return false
	}
	m.expires = expires
	return true
}

// files lists the files that the thing is in.
func (m *material) files(folder string) (paths []string) {
	for _, t := range m.texts {
		if t.File != "" {
			paths = append(paths, t.path(folder))
		}
	}
	return paths
}

// same reports whether the texts are given by the same words.
func (m *material) same(texts ...Text) bool {
	for i := range texts {
		if m.texts[i] != texts[i] {
			return false
		}
	}
	return true
}

func (t Text) path(folder string) string {
	if filepath.IsAbs(t.File) {
		return filepath.Clean(t.File)
	}
	return filepath.Join(folder, t.File)
}

// maxFile bounds what is read of a file, in bytes. It is more than what may be
// given inline.
const maxFile = 1 << 20

// bytes is the PEM, read from the file if it is in one.
func (t Text) bytes(folder string) ([]byte, error) {
	if t.File == "" {
		return []byte(t.PEM), nil
	}
	path := t.path(folder)
	// A pipe would be waited for when it is opened.
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s is larger than 1 MiB", path)
	}
	return data, nil
}
