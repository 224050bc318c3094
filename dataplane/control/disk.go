package control

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// disk is what the store asks of a filesystem. Names are relative to the state
// directory. The tests put one in its place that fails and crashes.
type disk interface {
	Names(dir string) ([]string, error)
	Read(name string) ([]byte, error)
	Create(name string) (diskFile, error) // truncates
	Rename(from, to string) error
	Remove(name string) error
	SyncDir(dir string) error
}

type diskFile interface {
	io.Writer
	Sync() error
	Close() error
}

// osDisk is a directory of the operating system, held by an advisory lock.
type osDisk struct {
	dir  string
	lock *os.File
}

// openDisk makes dir and its subdirectories if need be and locks it.
func openDisk(dir string, subdirs ...string) (*osDisk, error) {
	for _, d := range append([]string{"."}, subdirs...) {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			return nil, err
		}
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s: another process uses this state directory", dir)
		}
		return nil, fmt.Errorf("%s: lock: %w", dir, err)
	}
	d := &osDisk{dir: dir, lock: lock}
	return d, d.SyncDir(".")
}

// Close gives the lock back.
func (d *osDisk) Close() error { return d.lock.Close() }

func (d *osDisk) path(name string) string { return filepath.Join(d.dir, name) }

func (d *osDisk) Names(dir string) ([]string, error) {
	entries, err := os.ReadDir(d.path(dir))
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

func (d *osDisk) Read(name string) ([]byte, error) { return os.ReadFile(d.path(name)) }

func (d *osDisk) Create(name string) (diskFile, error) {
	return os.OpenFile(d.path(name), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
}

func (d *osDisk) Rename(from, to string) error { return os.Rename(d.path(from), d.path(to)) }

func (d *osDisk) Remove(name string) error { return os.Remove(d.path(name)) }

func (d *osDisk) SyncDir(dir string) error {
	f, err := os.Open(d.path(dir))
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
