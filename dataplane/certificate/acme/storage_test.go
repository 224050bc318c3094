package acme

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/headgate/headgate/dataplane/certificate/testca"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Both kinds of storage do the same.
func TestStorage(t *testing.T) {
	for name, s := range map[string]*Storage{"memory": NewStorage(""), "disk": NewStorage(filepath.Join(t.TempDir(), "a", "b"))} {
		t.Run(name, func(t *testing.T) {
			if names, err := s.Names(); err != nil || len(names) > 0 {
				t.Errorf("at first: %q, %v", names, err)
			}
			if _, err := s.Load("x"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("what is not there: %v", err)
			}
			for _, text := range []string{"one", "two"} {
				if err := s.Save("x", []byte(text)); err != nil {
					t.Fatal(err)
				}
				if got, err := s.Load("x"); err != nil || string(got) != text {
					t.Errorf("%q, %v", got, err)
				}
			}
			if names, err := s.Names(); err != nil || !slices.Equal(names, []string{"x"}) {
				t.Errorf("%q, %v", names, err)
			}
			if err := errors.Join(s.Remove("x"), s.Remove("x")); err != nil {
				t.Error(err)
			}
			if _, err := s.Load("x"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("what was removed: %v", err)
			}
		})
	}
}

// What cannot be kept leaves what was there.
func TestStorageFails(t *testing.T) {
	dir := t.TempDir()
	s := NewStorage(dir)
	if err := s.Save("x", []byte("one")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "x.tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.Save("x", []byte("two")); err == nil {
		t.Error("kept without an error")
	}
	if got, err := s.Load("x"); err != nil || string(got) != "one" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestCertificateName(t *testing.T) {
	name := CertificateName("", []string{"a.example", "B.example"})
	if same := CertificateName(DefaultDirectory, []string{"b.example", "A.example"}); same != name {
		t.Errorf("%s and %s are for the same", name, same)
	}
	for _, other := range []string{
		CertificateName("https://other.example/dir", []string{"a.example", "b.example"}),
		CertificateName("", []string{"a.example"}), CertificateName("", []string{"a.exampleb.example"}),
	} {
		if other == name {
			t.Errorf("%s is for something else", other)
		}
	}
}

// What is used stays, what has expired goes, and of the rest a hundred stay.
func TestPrune(t *testing.T) {
	ca, s, now := testca.New(t, "authority"), NewStorage(""), time.Now()
	keep := func(name string, end time.Time) {
		p := ca.Issue([]string{"a.example"}, testca.Expires(end))
		if err := s.SaveCertificate(name, []byte(p.Cert), []byte(p.Key)); err != nil {
			t.Fatal(err)
		}
	}
	keep("certificate-used.pem", now.Add(-time.Hour))
	keep("certificate-expired.pem", now.Add(-time.Hour))
	for i := range maxUnused + 2 {
		keep(fmt.Sprintf("certificate-%03d.pem", i), now.Add(time.Duration(i+1)*time.Hour))
	}
	if err := errors.Join(s.Save("certificate-broken.pem", []byte("x")), s.Save("account-1.json", nil)); err != nil {
		t.Fatal(err)
	}
	if err := s.Prune(map[string]bool{"certificate-used.pem": true}, now); err != nil {
		t.Fatal(err)
	}
	names, err := s.Names()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"account-1.json"}
	for i := 2; i < maxUnused+2; i++ {
		want = append(want, fmt.Sprintf("certificate-%03d.pem", i))
	}
	if want = append(want, "certificate-used.pem"); !slices.Equal(names, want) {
		t.Errorf("left: %q", names)
	}
}
