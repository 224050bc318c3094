package control

import (
	"errors"
	"io/fs"
	"maps"
	"path"
	"strings"
)

var (
	errDisk  = errors.New("disk full")
	errCrash = errors.New("power lost")
)

// crashDisk is a filesystem in memory that keeps what a loss of power would
// leave apart from what a process sees. A file's bytes are safe once it was
// synced, a name once its directory was. Operation number failAt fails, or if
// crash is set it is the last one to have been begun: from there on nothing
// works.
type crashDisk struct {
	failAt int
	crash  bool
	ops    int
	trace  []string

	names map[string]*crashFile // as the process sees it
	safe  map[string]*crashFile // names that outlive a crash
}

type crashFile struct {
	disk   *crashDisk
	name   string
	data   []byte
	synced []byte
}

func newCrashDisk() *crashDisk {
	return &crashDisk{failAt: -1, names: map[string]*crashFile{}, safe: map[string]*crashFile{}}
}

// op counts an operation and says whether it fails.
func (d *crashDisk) op(what string) error {
	d.trace = append(d.trace, what)
	d.ops++
	switch {
	case d.crash && d.failAt >= 0 && d.ops > d.failAt:
		return errCrash
	case d.ops == d.failAt+1 && d.failAt >= 0:
		return errDisk
	}
	return nil
}

func (d *crashDisk) crashed() bool { return d.crash && d.failAt >= 0 && d.ops > d.failAt }

func (d *crashDisk) Names(dir string) ([]string, error) {
	var out []string
	for name := range d.names {
		if path.Dir(name) == dir {
			out = append(out, path.Base(name))
		}
	}
	return out, nil
}

func (d *crashDisk) Read(name string) ([]byte, error) {
	f, ok := d.names[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return f.data, nil
}

func (d *crashDisk) Create(name string) (diskFile, error) {
	if err := d.op("create " + name); err != nil {
		return nil, err
	}
	f := &crashFile{disk: d, name: name}
	d.names[name] = f
	return f, nil
}

func (d *crashDisk) Rename(from, to string) error {
	if err := d.op("rename " + from + " " + to); err != nil {
		return err
	}
	d.names[to] = d.names[from]
	delete(d.names, from)
	return nil
}

func (d *crashDisk) Remove(name string) error {
	if err := d.op("remove " + name); err != nil {
		return err
	}
	if d.names[name] == nil {
		return fs.ErrNotExist
	}
	delete(d.names, name)
	return nil
}

func (d *crashDisk) SyncDir(dir string) error {
	if err := d.op("syncdir " + dir); err != nil {
		return err
	}
	for name := range d.safe {
		if path.Dir(name) == dir {
			delete(d.safe, name)
		}
	}
	for name, f := range d.names {
		if path.Dir(name) == dir {
			d.safe[name] = f
		}
	}
	return nil
}

func (f *crashFile) Write(p []byte) (int, error) {
	if err := f.disk.op("write " + f.name); err != nil {
		f.data = append(f.data, p[:len(p)/2]...)
		return len(p) / 2, err
	}
	f.data = append(f.data, p...)
	return len(p), nil
}

func (f *crashFile) Sync() error {
	if err := f.disk.op("sync " + f.name); err != nil {
		return err
	}
	f.synced = append([]byte(nil), f.data...)
	return nil
}

func (f *crashFile) Close() error { return f.disk.op("close " + f.name) }

// survivors are the disks that a restart may find: each name either as it was
// safe or as it was last seen, each byte that was not synced there, gone, or
// torn.
func (d *crashDisk) survivors() map[string]*crashDisk {
	out := map[string]*crashDisk{}
	for tornName, torn := range tears {
		out["names lost, bytes "+tornName] = d.after(d.safe, torn)
		out["names kept, bytes "+tornName] = d.after(d.names, torn)
		both := maps.Clone(d.safe)
		maps.Copy(both, d.names)
		out["removals lost, bytes "+tornName] = d.after(both, torn)
	}
	return out
}

var tears = map[string]func(*crashFile) []byte{
	"kept": func(f *crashFile) []byte { return f.data },
	"lost": func(f *crashFile) []byte { return f.synced },
	"torn": func(f *crashFile) []byte {
		if len(f.synced) == len(f.data) {
			return f.data
		}
		return append(f.data[:len(f.data)/2:len(f.data)/2], strings.Repeat("\x00", len(f.data)/2)...)
	},
}

func (d *crashDisk) after(names map[string]*crashFile, torn func(*crashFile) []byte) *crashDisk {
	next := newCrashDisk()
	for name, f := range names {
		data := append([]byte(nil), torn(f)...)
		file := &crashFile{disk: next, name: name, data: data, synced: data}
		next.names[name], next.safe[name] = file, file
	}
	return next
}
