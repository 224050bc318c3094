package resolve

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// The bounds on a File. What is more is not kept, or not read.
const (
	maxKept      = 10_000   // names
	maxFileBytes = 64 << 20 // that many names with as many addresses as there may be
)

// settle is how long changes are collected before they are written.
const settle = time.Second

// File remembers the last good addresses of names between processes. It is a JSON
// object of lists by name. What cannot be read is as if it were not there, and
// what cannot be written is tried again with the next change: the addresses are
// an aid, not the truth.
type File struct {
	path    string
	logger  *slog.Logger
	changed chan struct{} // one message: there is something to write
	stop    chan struct{}
	running sync.WaitGroup

	mu sync.Mutex
	// guarded by mu
	names map[string][]netip.Addr
	fresh map[string]bool // those that somebody in this process has asked for
}

// OpenFile reads the file at a path, if there is one. Close must be called.
func OpenFile(path string, logger *slog.Logger) *File {
	f := &File{
		path: path, logger: logger, changed: make(chan struct{}, 1), stop: make(chan struct{}),
		fresh: map[string]bool{},
	}
	names, err := readNames(path)
	if err != nil {
		logger.Warn("the last good addresses of names cannot be read", "file", path, "error", err)
	}
	f.names = names
	f.running.Go(f.run)
	return f
}

// readNames is never nil.
func readNames(path string) (map[string][]netip.Addr, error) {
	names := map[string][]netip.Addr{}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return names, nil
	}
	if err != nil {
		return names, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFileBytes))
	if err != nil {
		return names, err
	}
	if err := json.Unmarshal(text, &names); err != nil {
		return map[string][]netip.Addr{}, err
	}
	for name, list := range names {
		names[name] = list[:min(len(list), MaxAddresses)]
	}
	return names, nil
}

// Close writes what is not written yet and waits until that is done.
func (f *File) Close() {
	close(f.stop)
	f.running.Wait()
}

// Addresses are those that a name had, or nil.
func (f *File) Addresses(name string) []netip.Addr {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fresh[name] = true
	return f.names[name]
}

// Keep remembers the addresses of a name. The list must not be changed any more.
func (f *File) Keep(name string, list []netip.Addr) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if slices.Equal(f.names[name], list) || !f.room(name) {
		return
	}
	f.names[name] = list
	f.write()
}

// Forget is for a name that nobody watches any more.
func (f *File) Forget(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.fresh, name)
	if f.names[name] != nil {
		delete(f.names, name)
		f.write()
	}
}

// room makes place for a name, at the cost of names that only another process
// knew. The caller holds mu.
func (f *File) room(name string) bool {
	if f.names[name] != nil || len(f.names) < maxKept {
		return true
	}
	for other := range f.names {
		if !f.fresh[other] {
			delete(f.names, other)
		}
	}
	return len(f.names) < maxKept
}

// write has the file written soon.
func (f *File) write() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// run writes until the file is closed.
func (f *File) run() {
	for {
		select {
		case <-f.stop:
			f.flush()
			return
		case <-f.changed:
		}
		clock := time.NewTimer(settle)
		select {
		case <-f.stop:
		case <-clock.C:
		}
		clock.Stop()
		f.save()
	}
}

// flush writes what has changed since the last time.
func (f *File) flush() {
	select {
	case <-f.changed:
		f.save()
	default:
	}
}

func (f *File) save() {
	f.mu.Lock()
	text, err := json.Marshal(f.names)
	f.mu.Unlock()
	if err == nil {
		err = replace(f.path, text)
	}
	if err != nil {
		f.logger.Warn("the last good addresses of names cannot be written", "file", f.path, "error", err)
	}
}

// replace writes a file as a whole or not at all.
func replace(path string, text []byte) error {
	tmp, err := os.OpenFile(path+".tmp", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = tmp.Write(text)
	if err == nil {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(path+".tmp", path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(path+".tmp"))
	}
	return syncFolder(filepath.Dir(path))
}

// syncFolder makes a new name in a folder survive a loss of power.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	defer folder.Close()
	if err := folder.Sync(); err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	return nil
}
