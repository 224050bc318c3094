package acme

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// Storage keeps accounts and certificates with their keys, in a directory or in
// memory. What Save has returned nil for survives a loss of power; one that is
// cut short leaves what was there before.
type Storage struct {
	dir string // "": memory

	mu     sync.Mutex
	memory map[string][]byte // guarded by mu
}

// NewStorage keeps things in a directory, which is made when there is something
// to keep. Without one they are gone when the process ends.
func NewStorage(dir string) *Storage {
	return &Storage{dir: dir, memory: map[string][]byte{}}
}

// Lasting reports whether what is kept outlives the process.
func (s *Storage) Lasting() bool { return s.dir != "" }

// Load reads a thing; fs.ErrNotExist if there is none of this name.
func (s *Storage) Load(name string) ([]byte, error) {
	if s.dir != "" {
		return os.ReadFile(filepath.Join(s.dir, name))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	data, ok := s.memory[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return slices.Clone(data), nil
}

// Save keeps a thing under a name, in place of what had it.
func (s *Storage) Save(name string, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir == "" {
		s.memory[name] = slices.Clone(data)
		return nil
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	temporary := filepath.Join(s.dir, name+".tmp")
	if err := write(temporary, data); err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	if err := os.Rename(temporary, filepath.Join(s.dir, name)); err != nil {
		return err
	}
	return syncDir(s.dir)
}

// write makes a file that its owner alone can read.
func write(path string, data []byte) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Remove lets go of a thing; that there is none is no error.
func (s *Storage) Remove(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir == "" {
		delete(s.memory, name)
		return nil
	}
	if err := os.Remove(filepath.Join(s.dir, name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Names lists what is kept, sorted.
func (s *Storage) Names() ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir == "" {
		return slices.Sorted(maps.Keys(s.memory)), nil
	}
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, err
}
