package acme

import (
	"bytes"
	"crypto/tls"
	"slices"
	"strings"
	"time"
)

// The name of a kept certificate says what it was given for, not who uses it: it
// is found again when a configuration comes back to it.
const (
	certificatePrefix = "certificate-"
	certificateExt    = ".pem"
)

// maxUnused bounds the kept certificates that no configuration asks for now.
const maxUnused = 100

// CertificateName is the name of a kept certificate.
func CertificateName(directory string, domains []string) string {
	if directory == "" {
		directory = DefaultDirectory
	}
	words := make([]string, len(domains))
	for i, d := range domains {
		words[i] = strings.ToLower(d)
	}
	slices.Sort(words)
	return certificatePrefix + digest(append([]string{directory}, words...)...) + certificateExt
}

// SaveCertificate keeps a chain, leaf first, with its key: both or neither.
func (s *Storage) SaveCertificate(name string, chain, key []byte) error {
	return s.Save(name, append(append(bytes.Clone(key), '\n'), chain...))
}

// LoadCertificate reads a chain with its key.
func (s *Storage) LoadCertificate(name string) (*tls.Certificate, error) {
	text, err := s.Load(name)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(text, text)
	if err != nil {
		return nil, err
	}
	return &pair, nil
}

// Prune removes the certificates that are of no use to anybody: those that are
// not in used and have expired, and of the others all but the hundred that
// expire last. A configuration that is gone by mistake and comes back finds its
// certificates again.
func (s *Storage) Prune(used map[string]bool, now time.Time) error {
	names, err := s.Names()
	if err != nil {
		return err
	}
	type unused struct {
		name string
		end  time.Time // zero: it cannot be read
	}
	var list []unused
	for _, name := range names {
		if used[name] || !strings.HasPrefix(name, certificatePrefix) {
			continue
		}
		entry := unused{name: name}
		if pair, err := s.LoadCertificate(name); err == nil {
			entry.end = pair.Leaf.NotAfter
		}
		list = append(list, entry)
	}
	slices.SortStableFunc(list, func(a, b unused) int { return b.end.Compare(a.end) })
	for i, entry := range list {
		if i < maxUnused && now.Before(entry.end) {
			continue
		}
		if err := s.Remove(entry.name); err != nil {
			return err
		}
	}
	return nil
}
