package control

import (
	"bytes"
	"io/fs"
	"path"
	"sync"
)

// memoryDisk is a state directory that ends with the process.
type memoryDisk struct {
	mu    sync.Mutex
	files map[string][]byte
}

func newMemoryDisk() *memoryDisk { return &memoryDisk{files: map[string][]byte{}} }

func (d *memoryDisk) Names(dir string) ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var names []string
	for name := range d.files {
		if path.Dir(name) == dir {
			names = append(names, path.Base(name))
		}
	}
	return names, nil
}

func (d *memoryDisk) Read(name string) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	data, ok := d.files[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return data, nil
}

func (d *memoryDisk) Create(name string) (diskFile, error) {
	return &memoryFile{disk: d, name: name}, nil
}

func (d *memoryDisk) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files[to] = d.files[from]
	delete(d.files, from)
	return nil
}

func (d *memoryDisk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.files, name)
	return nil
}

func (d *memoryDisk) SyncDir(string) error { return nil }

// memoryFile appears under its name when it is synced.
type memoryFile struct {
	bytes.Buffer
	disk *memoryDisk
	name string
}

func (f *memoryFile) Sync() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.disk.files[f.name] = f.Bytes()
	return nil
}

func (f *memoryFile) Close() error { return nil }
