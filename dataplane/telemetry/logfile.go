package telemetry

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// logBuffer bounds the lines that wait in one shard of one file, in bytes.
	// What comes when it is full is dropped.
	logBuffer = 256 << 10
	// logDelay is how long a line may wait for others to be written with it.
	logDelay = 50 * time.Millisecond
	// logRetry is the time between two tries to open a file that failed.
	logRetry = time.Second
)

// stdoutPath is the path that stands for the standard output.
const stdoutPath = "-"

// accessLogs are the files that access logs go to. Requests append to buffers in
// memory; one goroutine writes them out. A request never waits for a disk.
type accessLogs struct {
	stdout io.Writer
	logger *slog.Logger
	shards int

	current atomic.Pointer[logTarget] // nil: off
	lost    atomic.Uint64             // lines dropped or not written

	wake  chan struct{} // a buffer is no longer empty, or there is a file to close
	full  chan struct{} // a buffer is half full
	calls chan logCall
	quit  chan struct{}
	done  chan struct{}

	mu      sync.Mutex
	files   map[string]*logFile
	closing []*logFile // no longer used, to be written out and closed
}

// logTarget is where the lines of now go and what they look like.
type logTarget struct {
	file *logFile
	json bool
}

// logFile is one file. Its output is owned by the writing goroutine once the
// file is listed in accessLogs.
type logFile struct {
	path   string
	shards []logShard
	fault  atomic.Pointer[error] // why it cannot be written now

	out    io.Writer // nil: not open
	closer io.Closer
	tried  time.Time // when it was last opened in vain
}

// logShard is the lines that wait to be written.
type logShard struct {
	mu     sync.Mutex
	buf    []byte
	lines  uint64
	closed bool
	stamp  stamp

	spare []byte // owned by the writing goroutine
	_     [64]byte
}

// logCall asks the writing goroutine to write everything out, and to open the
// files anew if reopen is set.
type logCall struct {
	reopen bool
	reply  chan error
}

func newAccessLogs(stdout io.Writer, logger *slog.Logger, shards int) *accessLogs {
	l := &accessLogs{
		stdout: stdout, logger: logger, shards: shards,
		wake: make(chan struct{}, 1), full: make(chan struct{}, 1), calls: make(chan logCall),
		quit: make(chan struct{}), done: make(chan struct{}),
		files: make(map[string]*logFile),
	}
	go l.run()
	return l
}

// open finds or makes the file of a path. It is opened at once, so that a fault
// shows before the first request.
func (l *accessLogs) open(path string) *logFile {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.openLocked(path)
}

func (l *accessLogs) openLocked(path string) *logFile {
	f := l.files[path]
	if f == nil {
		f = &logFile{path: path, shards: make([]logShard, l.shards)}
		l.connect(f)
		l.files[path] = f
	}
	return f
}

// connect opens the output of a file.
func (l *accessLogs) connect(f *logFile) {
	if f.path == stdoutPath {
		f.out = l.stdout
		return
	}
	file, err := os.OpenFile(f.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
	if err != nil {
		f.tried = time.Now()
		l.report(f, err)
		return
	}
	f.out, f.closer = file, file
	l.report(f, nil)
}

// report notes a fault or its end, and logs the change.
func (l *accessLogs) report(f *logFile, err error) {
	before := f.err()
	if err == nil {
		f.fault.Store(nil)
		if before != nil {
			l.logger.Info("access log is written again", "file", f.path)
		}
		return
	}
	f.fault.Store(&err)
	if before == nil {
		l.logger.Error("access log cannot be written; its lines are dropped", "file", f.path, "error", err)
	}
}

func (f *logFile) err() error {
	if p := f.fault.Load(); p != nil {
		return *p
	}
	return nil
}

// use sends the lines from now on to a file (nil: nowhere) and lets all others go.
func (l *accessLogs) use(f *logFile, json bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f == nil {
		l.current.Store(nil)
	} else {
		f = l.openLocked(f.path)
		l.current.Store(&logTarget{f, json})
	}
	for path, other := range l.files {
		if other != f {
			delete(l.files, path)
			l.closing = append(l.closing, other)
		}
	}
	poke(l.wake)
}

// poke makes a channel of capacity one ready.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// write adds the line of an exchange.
func (l *accessLogs) write(v *View, x *Exchange) {
	for {
		t := l.current.Load()
		if t == nil {
			return
		}
		if l.append(t, v, x) {
			return
		}
		if l.current.Load() == t { // shut down
			l.lost.Add(1)
			return
		}
	}
}

// append adds the line to the shard's buffer; false says that the file was
// closed meanwhile.
func (l *accessLogs) append(t *logTarget, v *View, x *Exchange) bool {
	s := &t.file.shards[x.Shard]
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return false
	}
	before := len(s.buf)
	if t.json {
		s.buf = appendJSONLine(s.buf, &s.stamp, v, x)
	} else {
		s.buf = appendCombinedLine(s.buf, &s.stamp, x)
	}
	after := len(s.buf)
	fits := after <= logBuffer
	if fits {
		s.lines++
	} else {
		s.buf = s.buf[:before]
	}
	s.mu.Unlock()
	l.signal(before, after, fits)
	return true
}

// signal wakes the writing goroutine when a buffer begins to fill and when it is
// half full: not for every line, because a wake-up costs more than the line.
func (l *accessLogs) signal(before, after int, fits bool) {
	switch {
	case !fits:
		l.lost.Add(1)
	case before == 0:
		poke(l.wake)
	case before < logBuffer/2 && after >= logBuffer/2:
		poke(l.full)
	}
}

var errLogBusy = errors.New("access log: the disk did not take the lines in time")
