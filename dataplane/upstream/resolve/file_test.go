package resolve

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// Another process has the last good addresses at once, when DNS is down too, and
// those of names that nobody watched any more are gone.
func TestFileOutlivesProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "addresses")
	synctest.Test(t, func(t *testing.T) {
		d := newDirectory()
		d.set("a", time.Hour, "10.0.0.1", "10.0.0.2")
		d.set("b", time.Hour, "10.0.0.3")
		f := OpenFile(path, quiet())
		r := NewResolver(Options{Lookup: d.lookup, Kept: f})
		r.Watch("a", time.Second, nobody)
		b := r.Watch("b", time.Second, nobody)
		time.Sleep(settle + time.Millisecond)
		synctest.Wait()
		if text, _ := os.ReadFile(path); string(text) != `{"a":["10.0.0.1","10.0.0.2"],"b":["10.0.0.3"]}` {
			t.Errorf("the file says %s", text)
		}
		b.Stop()
		r.Close()
		f.Close()

		d.fail("a")
		f = OpenFile(path, quiet())
		defer f.Close()
		r = NewResolver(Options{Lookup: d.lookup, Kept: f})
		defer r.Close()
		w := r.Watch("a", time.Second, nobody)
		if s := w.Latest(); len(s.Addresses) != 2 || s.Asked {
			t.Errorf("another process begins with %+v", s)
		}
		synctest.Wait()
		if s := w.Latest(); len(s.Addresses) != 2 || s.Trouble == "" {
			t.Errorf("when DNS is down: %+v", s)
		}
		if f.Addresses("b") != nil {
			t.Error("what nobody watches was kept")
		}
	})
}

// Stopping watches after the resolver was closed is the end of a process, and no
// reason to forget.
func TestFileSurvivesShutdown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "addresses")
	synctest.Test(t, func(t *testing.T) {
		d := newDirectory()
		d.set("a", time.Hour, "10.0.0.1")
		f := OpenFile(path, quiet())
		r := NewResolver(Options{Lookup: d.lookup, Kept: f})
		w := r.Watch("a", time.Second, nobody)
		synctest.Wait()
		r.Close()
		w.Stop()
		f.Close()
		if text, _ := os.ReadFile(path); string(text) != `{"a":["10.0.0.1"]}` {
			t.Errorf("the file says %s", text)
		}
	})
}

// A file that cannot be read, or not be written, is said and does no harm.
func TestFileInTrouble(t *testing.T) {
	path := filepath.Join(t.TempDir(), "addresses")
	if err := os.WriteFile(path, []byte(`{"a": ["10.0.0.1"`), 0o600); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	f := OpenFile(path, slog.New(slog.NewTextHandler(&log, nil)))
	if f.Addresses("a") != nil || !strings.Contains(log.String(), "cannot be read") {
		t.Errorf("%v, logged %s", f.Addresses("a"), &log)
	}
	f.path = filepath.Join(path, "no", "folder")
	f.Keep("a", addresses("10.0.0.1"))
	f.Close()
	if !strings.Contains(log.String(), "cannot be written") {
		t.Errorf("logged %s", &log)
	}
}

// The file holds so many names, and those that only another process knew make
// place for others.
func TestFileIsBounded(t *testing.T) {
	f := OpenFile(filepath.Join(t.TempDir(), "addresses"), quiet())
	for i := range maxKept {
		f.names[fmt.Sprint("old", i)] = addresses("10.0.0.1")
	}
	f.Addresses("old7")
	f.Keep("new", addresses("10.0.0.2"))
	if len(f.names) != 2 || f.Addresses("old7") == nil || f.Addresses("new") == nil {
		t.Errorf("%d names", len(f.names))
	}
	for i := range maxKept {
		name := fmt.Sprint("more", i)
		f.Addresses(name)
		f.Keep(name, addresses("10.0.0.3"))
	}
	if len(f.names) != maxKept {
		t.Errorf("%d names, and %d may be", len(f.names), maxKept)
	}
	f.Close()
}
