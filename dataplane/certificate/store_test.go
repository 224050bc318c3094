package certificate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/dataplane/certificate/testca"
)

// heard collects events.
type heard chan Event

func (h heard) next(t testing.TB) Event {
	t.Helper()
	select {
	case e := <-h:
		return e
	case <-time.After(patience):
		t.Fatal("no event")
	}
	panic("unreachable")
}

// until waits for what no event tells of.
func until(t testing.TB, what string, reached func() bool) {
	t.Helper()
	end := time.After(patience)
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for !reached() {
		select {
		case <-look.C:
		case <-end:
			t.Fatalf("never reached: %s", what)
		}
	}
}

// Files are read again when they change, while fifty connections are busy: none
// of them is disturbed, and all that come after see the new certificate.
func TestReloadUnderLoad(t *testing.T) {
	ca := testca.New(t, "authority")
	old, fresh := ca.Issue([]string{"a.example"}), ca.Issue([]string{"a.example"})
	f := newFiles(t, old)
	store := open(t, Options{})
	set := commit(t, store, []Source{f.source("site")}, nil)
	server := set.NewServer(ServerOptions{Certificates: []*Certificate{set.Certificate("site")}})
	address := serving(t, server)
	config := &tls.Config{RootCAs: ca.Pool(), ServerName: "a.example"}

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var busy, ready sync.WaitGroup
	faults := make(chan error, 50)
	for range 50 {
		ready.Add(1)
		busy.Go(func() {
			c, err := tls.Dial("tcp", address, config)
			ready.Done()
			if err != nil {
				faults <- err
				return
			}
			defer c.Close()
			for ctx.Err() == nil {
				if err := echo(c); err != nil {
					faults <- err
					return
				}
			}
		})
	}
	ready.Wait()
	f.write(fresh)
	wanted := serialOf(tls.ConnectionState{PeerCertificates: leaf(t, fresh)})
	until(t, "the new certificate is shown", func() bool {
		c, err := tls.Dial("tcp", address, config)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return serialOf(c.ConnectionState()) == wanted
	})
	stop()
	busy.Wait()
	close(faults)
	for err := range faults {
		t.Error(err)
	}
}

func echo(c io.ReadWriter) error {
	sent, got := []byte("headgate"), make([]byte, 8)
	if _, err := c.Write(sent); err != nil {
		return err
	}
	if _, err := io.ReadFull(c, got); err != nil {
		return err
	}
	if !slices.Equal(sent, got) {
		return errors.New("other bytes came back")
	}
	return nil
}

// What is broken by a change is said, and the last good state is used until it
// is mended.
func TestBrokenReload(t *testing.T) {
	ca := testca.New(t, "authority")
	old, fresh := ca.Issue([]string{"a.example"}), ca.Issue([]string{"a.example"})
	f := newFiles(t, old)
	events := make(heard, 10)
	store := open(t, Options{Events: func(e Event) { events <- e }})
	set := commit(t, store, []Source{f.source("site")}, nil)
	c := set.Certificate("site")
	shown := func() string { return serialOf(tls.ConnectionState{PeerCertificates: leaf(t, c)}) }
	before := shown()

	f.write(testca.Pair{Cert: fresh.Cert, Key: old.Key})
	e := events.next(t)
	if e.Healthy || e.Name != "site" || e.Kind != KindCertificate || !strings.Contains(e.Cause, "private key does not match") || !e.Expires.Equal(c.Current().Leaf.NotAfter) {
		t.Errorf("%+v", e)
	}
	if shown() != before {
		t.Error("the last good certificate is not used")
	}
	// An apply that does not touch the certificate is not refused for that.
	if again := commit(t, store, []Source{f.source("site")}, nil); again.Certificate("site") != c {
		t.Error("the certificate was made anew")
	}
	f.write(fresh)
	if e := events.next(t); !e.Healthy || e.Cause != "" {
		t.Errorf("%+v", e)
	}
	if shown() == before {
		t.Error("the new certificate is not used")
	}
	// A file that goes is no end of what was read from it.
	if err := os.Remove(f.key); err != nil {
		t.Fatal(err)
	}
	if e := events.next(t); e.Healthy || !strings.Contains(e.Cause, "no such file") {
		t.Errorf("%+v", e)
	}
	f.write(fresh)
	if e := events.next(t); !e.Healthy {
		t.Errorf("%+v", e)
	}
}

// As Kubernetes changes a mounted secret: the folder with the files is a link,
// and another link takes its place.
func TestReloadBehindALink(t *testing.T) {
	ca := testca.New(t, "authority")
	old, fresh := ca.Issue([]string{"a.example"}), ca.Issue([]string{"a.example"})
	root := t.TempDir()
	for name, p := range map[string]testca.Pair{"v1": old, "v2": fresh} {
		must(t, os.Mkdir(filepath.Join(root, name), 0o700))
		must(t, os.WriteFile(filepath.Join(root, name, "tls.crt"), []byte(p.Cert), 0o600))
		must(t, os.WriteFile(filepath.Join(root, name, "tls.key"), []byte(p.Key), 0o600))
	}
	must(t, os.Symlink("v1", filepath.Join(root, "..data")))
	must(t, os.Symlink("..data/tls.crt", filepath.Join(root, "tls.crt")))
	must(t, os.Symlink("..data/tls.key", filepath.Join(root, "tls.key")))

	store := open(t, Options{Folder: root})
	set := commit(t, store, []Source{{Name: "site", Chain: Text{File: "tls.crt"}, Key: Text{File: "tls.key"}}}, nil)
	c := set.Certificate("site")
	store.Reload() // the folder is watched by now
	before := c.Current()
	must(t, os.Symlink("v2", filepath.Join(root, "..next")))
	must(t, os.Rename(filepath.Join(root, "..next"), filepath.Join(root, "..data")))
	until(t, "the new certificate is used", func() bool { return c.Current() != before })
}

// Reload reads what nobody was told of.
func TestReload(t *testing.T) {
	ca, other := testca.New(t, "authority"), testca.New(t, "other")
	path := filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(path, []byte(ca.PEM), 0o600))
	store := open(t, Options{})
	set := commit(t, store, nil, []BundleSource{{Name: "staff", Text: Text{File: path}}})
	before := set.Bundle("staff").Current()
	must(t, os.WriteFile(path, []byte(other.PEM), 0o600))
	store.Reload()
	if set.Bundle("staff").Current().Digest == before.Digest {
		t.Error("the bundle is the old one after Reload")
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// leaf is the certificate of a pair or of what lives.
func leaf(t testing.TB, of any) []*x509.Certificate {
	t.Helper()
	switch of := of.(type) {
	case testca.Pair:
		return []*x509.Certificate{of.TLS(t).Leaf}
	case *Certificate:
		return []*x509.Certificate{of.Current().Leaf}
	}
	panic("neither")
}

// What cannot be read is refused by the path of its field, and nothing changes.
func TestPrepareFaults(t *testing.T) {
	ca := testca.New(t, "authority")
	a, b := ca.Issue([]string{"a.example"}), ca.Issue([]string{"b.example"})
	f := newFiles(t, a)
	junk := filepath.Join(f.folder, "junk")
	must(t, os.WriteFile(junk, []byte("junk"), 0o600))
	huge := filepath.Join(f.folder, "huge")
	must(t, os.WriteFile(huge, make([]byte, maxFile+1), 0o600))
	store := open(t, Options{Folder: f.folder})
	before := commit(t, store, []Source{inline("kept", a)}, nil)
	_, faults := store.Prepare([]Source{
		inline("kept", a),
		{Name: "missing", Chain: Text{File: "nowhere"}, Key: Text{File: f.keyF}},
		{Name: "folder", Chain: Text{File: f.chainF}, Key: Text{File: f.folder}},
		{Name: "mixed", Chain: Text{File: f.chainF}, Key: Text{PEM: b.Key}},
		{Name: "junk", Chain: Text{File: junk}, Key: Text{PEM: b.Key}},
		{Name: "huge", Chain: Text{File: huge}, Key: Text{PEM: b.Key}},
		{Name: "good", Chain: Text{File: f.chainF}, Key: Text{PEM: a.Key}},
	}, []BundleSource{{Name: "none", Text: Text{File: "nowhere"}}, {Name: "junk", Text: Text{PEM: "junk"}}})
	var got []string
	for _, fault := range faults {
		got = append(got, strings.ReplaceAll(fault.Error(), f.folder, "DIR"))
	}
	want := []string{
		"certificates[1].certificateFile: stat DIR/nowhere: no such file or directory",
		"certificates[2].privateKeyFile: DIR is not a regular file",
		"certificates[3].privateKeyPem: private key does not match public key",
		"certificates[4].certificateFile: holds no certificate in PEM",
		"certificates[5].certificateFile: DIR/huge is larger than 1 MiB",
		"caBundles[0].file: stat DIR/nowhere: no such file or directory",
		"caBundles[1].pem: holds no certificate in PEM",
	}
	if !slices.Equal(got, want) {
		t.Errorf("faults\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if store.committed != before {
		t.Error("something else is committed")
	}
}

// Certificates that end, or are about to, are spoken of.
func TestExpiry(t *testing.T) {
	ca := testca.New(t, "authority")
	c := &clock{now: time.Now()}
	events := make(heard, 10)
	store := open(t, Options{Events: func(e Event) { events <- e }, Now: c.read})
	at := c.read().Add(30 * 24 * time.Hour).Truncate(time.Second)
	commit(t, store, []Source{inline("site", ca.Issue([]string{"a.example"}, testca.Expires(at)))}, nil)
	for _, test := range []struct {
		left    time.Duration
		healthy bool
		says    string
	}{
		{soon - time.Hour, true, "expires in 6 days, on " + at.UTC().Format(time.DateTime)},
		{25 * time.Hour, true, "expires in one day, on " + at.UTC().Format(time.DateTime)},
		{5*time.Hour + time.Minute, true, "expires in 5 hours, on " + at.UTC().Format(time.DateTime)},
		{90 * time.Minute, true, "expires in 90 minutes, on " + at.UTC().Format(time.DateTime)},
		{0, false, "expired on " + at.UTC().Format(time.DateTime)},
	} {
		c.set(at.Add(-test.left))
		store.Reload()
		if e := events.next(t); e.Healthy != test.healthy || e.Cause != test.says || !e.Expires.Equal(at) {
			t.Errorf("%v before the end: %+v", test.left, e)
		}
	}
	store.Reload()
	if len(events) > 0 {
		t.Errorf("said twice: %+v", <-events)
	}
}
