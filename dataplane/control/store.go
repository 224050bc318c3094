package control

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Names in the state directory. A file under a temporary name was never live.
const (
	generationsDir = "generations"
	generationExt  = ".pb"
	termName       = "term"
	drainedName    = "drained"
	temporaryExt   = ".tmp"
	keptDefault    = 10
)

// ErrNoGeneration says that the store does not hold the generation asked for.
var ErrNoGeneration = errors.New("this generation is not stored")

// A StoreFault is a file of the store that could not be used.
type StoreFault struct {
	File string
	Err  error
}

func (f StoreFault) Error() string { return f.File + ": " + f.Err.Error() }

// generation is the number in the file's name; 0 if it has none.
func (f StoreFault) generation() uint64 {
	n, _ := generationNumber(path.Base(f.File))
	return n
}

// Unwrap returns the cause.
func (f StoreFault) Unwrap() error { return f.Err }

// Stored is a generation as List returns it.
type Stored struct {
	Meta       // only the generation's number if Err is set
	Size int64 // of the file, bytes
	Err  error // why it can't be used: a StoreFault
}

// Store holds the last ten generations, the highest term seen and what is drained
// by hand. What Save, SetTerm and SetDrained have returned nil for survives kill -9 and a loss of power; an
// operation cut short leaves what was there before, or what was to be there,
// whole.
type Store struct {
	disk  disk
	dir   string // "": in memory
	close func() error
	kept  int

	mu    sync.Mutex
	term  uint64
	last  uint64   // the highest number any file has had; numbers are not used twice
	list  []Stored // newest first; corrupt ones stay as evidence until they have aged out
	stale []uint64 // numbers of files to be removed

	drained []Drained
	faults  []StoreFault
}

// OpenStore opens the state directory dir, makes it if need be, and locks it
// against other processes. An empty dir keeps everything in memory, until the
// process ends.
func OpenStore(dir string) (*Store, error) {
	if dir == "" {
		return newStore(newMemoryDisk(), "", func() error { return nil })
	}
	d, err := openDisk(dir, generationsDir)
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	s, err := newStore(d, dir, d.Close)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("state directory %s: %w", dir, err), d.Close())
	}
	return s, nil
}

func memoryStore() *Store {
	s, err := OpenStore("")
	if err != nil {
		panic("control: store in memory: " + err.Error())
	}
	return s
}

func newStore(d disk, dir string, closer func() error) (*Store, error) {
	s := &Store{disk: d, dir: dir, close: closer, kept: keptDefault}
	if err := s.scan(); err != nil {
		return nil, err
	}
	if err := s.readTerm(); err != nil {
		return nil, err
	}
	if err := s.readDrained(); err != nil {
		return nil, err
	}
	return s, nil
}

// Close unlocks the directory.
func (s *Store) Close() error { return s.close() }

// Directory is where the store is; empty if it ends with the process.
func (s *Store) Directory() string { return s.dir }

// Faults returns the files that could not be used when the store was opened.
func (s *Store) Faults() []StoreFault { return s.faults }

// Term returns the highest term stored.
func (s *Store) Term() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.term
}

// Last returns the highest generation number that was ever seen here, that of
// corrupt files included. The next one to save is one higher.
func (s *Store) Last() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// List returns what is stored, newest first, corrupt ones included.
func (s *Store) List() []Stored {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}

// Get reads a generation; ErrNoGeneration if there is none of this number. The
// file is checked again.
func (s *Store) Get(generation uint64) (Meta, []byte, error) {
	s.mu.Lock()
	known := slices.ContainsFunc(s.list, func(e Stored) bool { return e.Generation == generation })
	s.mu.Unlock()
	if !known {
		return Meta{}, nil, fmt.Errorf("generation %d: %w", generation, ErrNoGeneration)
	}
	meta, body, _, err := s.read(generation)
	if errors.Is(err, fs.ErrNotExist) { // it has aged out just now
		err = fmt.Errorf("generation %d: %w", generation, ErrNoGeneration)
	}
	return meta, body, err
}

func (s *Store) read(generation uint64) (meta Meta, body []byte, size int64, err error) {
	name := generationName(generation)
	data, err := s.disk.Read(name)
	if err != nil {
		return Meta{}, nil, 0, StoreFault{name, err}
	}
	meta, body, err = parseRecord(data)
	if err == nil && meta.Generation != generation {
		err = fmt.Errorf("holds generation %d", meta.Generation)
	}
	if err != nil {
		return Meta{}, nil, int64(len(data)), StoreFault{name, err}
	}
	return meta, body, int64(len(data)), nil
}

// scan reads every file once, so that a corrupt one is known before it is
// needed, and removes what an interrupted Save left.
func (s *Store) scan() error {
	names, err := s.disk.Names(generationsDir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasSuffix(name, temporaryExt) {
			_ = s.disk.Remove(generationsDir + "/" + name)
			continue
		}
		if n, ok := generationNumber(name); ok {
			s.admitFile(n)
		}
	}
	slices.SortFunc(s.list, func(a, b Stored) int { return cmp.Compare(b.Generation, a.Generation) })
	for _, e := range s.list {
		if fault, ok := errors.AsType[StoreFault](e.Err); ok {
			s.faults = append(s.faults, fault)
		}
	}
	return nil
}

func (s *Store) admitFile(n uint64) {
	s.last = max(s.last, n)
	meta, _, size, err := s.read(n)
	if err != nil {
		meta = Meta{Generation: n}
	}
	s.list = append(s.list, Stored{meta, size, err})
}

// readTerm takes the term from its file. If that is corrupt, the highest term
// of the generations stands in for it: no write under a lower one was accepted.
func (s *Store) readTerm() error {
	for _, m := range s.list {
		s.term = max(s.term, m.Term)
	}
	data, err := s.disk.Read(termName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	meta, _, err := parseRecord(data)
	if err != nil {
		s.faults = append(s.faults, StoreFault{termName, err})
		return nil
	}
	s.term = max(s.term, meta.Term)
	return nil
}

// Save makes a generation durable. Its number must be above all before it.
func (s *Store) Save(meta Meta, body []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if meta.Generation <= s.last {
		return fmt.Errorf("generation %d: the store is at %d already", meta.Generation, s.last)
	}
	record, err := appendRecord(make([]byte, 0, recordHeader+512+len(body)), meta, body)
	if err != nil {
		return err
	}
	name := generationName(meta.Generation)
	if err := s.replace(name, generationsDir, record); err != nil {
		s.last = meta.Generation
		s.stale = append(s.stale, meta.Generation)
		s.removeStale()
		return fmt.Errorf("store %s: %w", name, err)
	}
	s.last = meta.Generation
	s.list = slices.Insert(s.list, 0, Stored{Meta: meta, Size: int64(len(record))})
	s.prune()
	return nil
}

// SetTerm makes a higher term durable; one that is not higher changes nothing.
func (s *Store) SetTerm(term uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if term <= s.term {
		return nil
	}
	record, err := appendRecord(nil, Meta{Term: term}, nil)
	if err != nil {
		return err
	}
	if err := s.replace(termName, ".", record); err != nil {
		return fmt.Errorf("store term %d: %w", term, err)
	}
	s.term = term
	return nil
}

// replace writes a file under a temporary name, syncs it, gives it its name and
// syncs the directory. Without the last step the name may be gone after a loss
// of power.
func (s *Store) replace(name, dir string, data []byte) error {
	tmp := name + temporaryExt
	if err := s.write(tmp, data); err != nil {
		_ = s.disk.Remove(tmp)
		return err
	}
	if err := s.disk.Rename(tmp, name); err != nil {
		_ = s.disk.Remove(tmp)
		return err
	}
	return s.disk.SyncDir(dir)
}

func (s *Store) write(name string, data []byte) error {
	f, err := s.disk.Create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// prune forgets the oldest generations. A file that can't be removed now is
// tried again after the next Save.
func (s *Store) prune() {
	for len(s.list) > s.kept {
		oldest := len(s.list) - 1
		s.stale = append(s.stale, s.list[oldest].Generation)
		s.list = s.list[:oldest]
	}
	s.removeStale()
}

func (s *Store) removeStale() {
	s.stale = slices.DeleteFunc(s.stale, func(n uint64) bool {
		err := s.disk.Remove(generationName(n))
		return err == nil || errors.Is(err, fs.ErrNotExist)
	})
}

func generationName(n uint64) string {
	return fmt.Sprintf("%s/%d%s", generationsDir, n, generationExt)
}

func generationNumber(name string) (uint64, bool) {
	text, ok := strings.CutSuffix(name, generationExt)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 64)
	return n, err == nil && n > 0
}
