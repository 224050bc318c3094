package control

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func meta(n uint64) Meta {
	return Meta{Generation: n, Version: fmt.Sprintf("v%d", n), Digest: strings.Repeat("a", 64), Term: n}
}

func body(n uint64) []byte { return bytes.Repeat([]byte{byte(n)}, 1000) }

func mustStore(t *testing.T, d disk) *Store {
	t.Helper()
	s, err := newStore(d, "crash", func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newestGood is the generation that a restart would use; 0: none.
func newestGood(t *testing.T, s *Store) uint64 {
	t.Helper()
	for _, e := range s.List() {
		if e.Err != nil {
			continue
		}
		m, b, err := s.Get(e.Generation)
		if err != nil || !bytes.Equal(b, body(m.Generation)) {
			t.Fatalf("generation %d is listed as good: %v", e.Generation, err)
		}
		return m.Generation
	}
	return 0
}

// TestCrash ends the process at every operation of a save, with whatever of it
// reached the disk: a restart finds the old generation whole or the new one
// whole, and the new one if Save had returned.
func TestCrash(t *testing.T) {
	const old, total = 11, 12 // enough for the oldest to be removed
	for failAt := 0; ; failAt++ {
		d := newCrashDisk()
		s := mustStore(t, d)
		for n := uint64(1); n <= old; n++ {
			if err := errors.Join(s.SetTerm(n), s.Save(meta(n), body(n))); err != nil {
				t.Fatal(err)
			}
		}
		d.ops, d.trace, d.failAt, d.crash = 0, nil, failAt, true
		err := errors.Join(s.SetTerm(total), s.Save(meta(total), body(total)))
		for name, left := range d.survivors() {
			again := mustStore(t, left)
			got := newestGood(t, again)
			if got != total && (got != old || err == nil) {
				t.Errorf("crash in %q, %s: generation %d after a restart (save said %v)", d.trace[len(d.trace)-1], name, got, err)
			}
			if term := again.Term(); term < old || err == nil && term < total {
				t.Errorf("crash in %q, %s: term %d after a restart", d.trace[len(d.trace)-1], name, term)
			}
		}
		if !d.crashed() {
			break
		}
	}
}

// TestDiskFault lets every operation of a save fail: what was there stays, and
// the next save works.
func TestDiskFault(t *testing.T) {
	for failAt := 0; ; failAt++ {
		d := newCrashDisk()
		s := mustStore(t, d)
		if err := s.Save(meta(1), body(1)); err != nil {
			t.Fatal(err)
		}
		d.ops, d.failAt = 0, failAt
		err := s.Save(meta(2), body(2))
		if err == nil {
			if d.ops > failAt {
				t.Errorf("operation %d failed unseen", failAt)
			}
			return
		}
		if !errors.Is(err, errDisk) {
			t.Errorf("operation %d: %v", failAt, err)
		}
		if got := newestGood(t, mustStore(t, d)); got != 1 {
			t.Errorf("operation %d: generation %d after a failed save", failAt, got)
		}
		if err := s.Save(meta(s.Last()+1), body(s.Last()+1)); err != nil {
			t.Errorf("operation %d: the next save: %v", failAt, err)
		}
	}
}

func TestStoreKeepsTen(t *testing.T) {
	dir := t.TempDir()
	s, err := OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	for n := uint64(1); n <= 13; n++ {
		if err := s.Save(meta(n), body(n)); err != nil {
			t.Fatal(err)
		}
	}
	list := s.List()
	if len(list) != 10 || list[0].Generation != 13 || list[9].Generation != 4 {
		t.Errorf("kept %v", list)
	}
	files, _ := os.ReadDir(filepath.Join(dir, generationsDir))
	if len(files) != 10 {
		t.Errorf("%d files", len(files))
	}
	if _, _, err := s.Get(3); !errors.Is(err, ErrNoGeneration) {
		t.Errorf("generation 3: %v", err)
	}
	if err := s.Save(meta(13), body(13)); err == nil {
		t.Error("a number was used twice")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestCorruptFallsBack damages the newest files in every way; the one before
// them is used, and each is said to be bad.
func TestCorruptFallsBack(t *testing.T) {
	damage := map[string]func([]byte) []byte{
		"empty":          func([]byte) []byte { return nil },
		"torn header":    func(b []byte) []byte { return b[:recordHeader-1] },
		"torn body":      func(b []byte) []byte { return b[:len(b)-1] },
		"tail":           func(b []byte) []byte { return append(b, 0) },
		"flipped body":   func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
		"flipped meta":   func(b []byte) []byte { b[recordHeader+20] ^= 1; return b },
		"flipped length": func(b []byte) []byte { b[23] ^= 1; return b },
		"huge length":    func(b []byte) []byte { b[16] = 0xff; return b },
		"huge meta":      func(b []byte) []byte { b[12] = 0xff; return b },
		"other magic":    func(b []byte) []byte { b[0] = 'h'; return b },
		"other format":   func(b []byte) []byte { b[11] = 2; return b },
	}
	for name, change := range damage {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s, err := OpenStore(dir)
			if err != nil {
				t.Fatal(err)
			}
			for n := uint64(1); n <= 2; n++ {
				if err := s.Save(meta(n), body(n)); err != nil {
					t.Fatal(err)
				}
			}
			_ = s.Close()
			file := filepath.Join(dir, generationName(2))
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, change(data), 0o600); err != nil {
				t.Fatal(err)
			}
			s, err = OpenStore(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if got := newestGood(t, s); got != 1 {
				t.Errorf("generation %d is used", got)
			}
			if f := s.Faults(); len(f) != 1 || f[0].generation() != 2 {
				t.Errorf("faults: %v", f)
			}
			if s.Last() != 2 {
				t.Errorf("the number of the corrupt one is free again")
			}
		})
	}
}

func TestStoreIsLocked(t *testing.T) {
	dir := t.TempDir()
	first, err := OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenStore(dir); err == nil || !strings.Contains(err.Error(), "another process uses") {
		t.Errorf("a second one: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	_ = again.Close()
}

func TestTermOutlivesCorruption(t *testing.T) {
	dir := t.TempDir()
	s, err := OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.SetTerm(7), s.Save(meta(5), nil), s.SetTerm(3)); err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	if s, err = OpenStore(dir); err != nil || s.Term() != 7 {
		t.Fatalf("term %d, %v", s.Term(), err)
	}
	_ = s.Close()
	if err := os.WriteFile(filepath.Join(dir, termName), []byte("7"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err = OpenStore(dir); err != nil || s.Term() != 5 || len(s.Faults()) != 1 {
		t.Fatalf("term %d, faults %v, %v", s.Term(), s.Faults(), err)
	}
	_ = s.Close()
}

func TestMemoryStore(t *testing.T) {
	s := memoryStore()
	if s.Directory() != "" {
		t.Error("says that it is in", s.Directory())
	}
	if err := errors.Join(s.SetTerm(2), s.Save(meta(1), body(1))); err != nil {
		t.Fatal(err)
	}
	if got := newestGood(t, s); got != 1 || s.Term() != 2 {
		t.Errorf("generation %d, term %d", got, s.Term())
	}
}

func FuzzParseRecord(f *testing.F) {
	good, err := appendRecord(nil, meta(3), body(3))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:recordHeader])
	f.Add([]byte(recordMagic))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, b, err := parseRecord(data)
		if err != nil {
			return
		}
		again, err := appendRecord(nil, m, b)
		if err != nil {
			t.Fatal(err)
		}
		if _, b2, err := parseRecord(again); err != nil || !bytes.Equal(b, b2) {
			t.Fatalf("does not survive a round: %v", err)
		}
	})
}
