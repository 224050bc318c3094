package telemetry

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/headgate/headgate/dataplane/snapshot"
)

// logging is a snapshot that logs to a file.
func logging(version, file string) *snapshot.Snapshot {
	s := testSnapshot(version, []string{"a"}, []string{"c"})
	s.Telemetry.AccessLog = file
	return s
}

func flushLog(t *testing.T, r *Recorder) {
	t.Helper()
	if err := r.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func countLines(t *testing.T, file string) int {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(data, []byte("\n"))
}

// HUP: a file that was moved away gets no more lines, its successor does.
func TestReopen(t *testing.T) {
	file := filepath.Join(t.TempDir(), "access.log")
	r := newRecorder(t, Options{})
	s := logging("v1", file)
	v := r.View(s)
	var x Exchange
	serve(v, &x, s)
	serve(v, &x, s)
	flushLog(t, r)
	if err := os.Rename(file, file+".1"); err != nil {
		t.Fatal(err)
	}
	serve(v, &x, s)
	if err := r.Reopen(); err != nil {
		t.Fatal(err)
	}
	serve(v, &x, s)
	flushLog(t, r)
	if old, young := countLines(t, file+".1"), countLines(t, file); old != 3 || young != 1 {
		t.Errorf("%d lines in the old file, %d in the new", old, young)
	}
}

// The file follows the snapshot in use, also for what began before.
func TestLogFollowsSnapshot(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.log"), filepath.Join(dir, "b.log")
	r := newRecorder(t, Options{})
	first, second := logging("v1", a), logging("v2", b)
	old := r.View(first)
	var x Exchange
	serve(old, &x, first)
	r.Use(r.View(second))
	serve(old, &x, first)
	flushLog(t, r)
	if countLines(t, a) != 1 || countLines(t, b) != 1 {
		t.Errorf("%d and %d lines", countLines(t, a), countLines(t, b))
	}
	off := testSnapshot("v3", []string{"a"}, []string{"c"})
	r.Use(r.View(off))
	serve(old, &x, first)
	flushLog(t, r)
	if countLines(t, a) != 1 || countLines(t, b) != 1 {
		t.Error("a line was written with the log off")
	}
	if len(r.logs.files) != 0 || len(r.logs.closing) != 0 {
		t.Error("files are still open")
	}
}

// A log that cannot be opened is said, and tried again.
func TestLogCannotBeOpened(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "missing")
	file := filepath.Join(dir, "access.log")
	r := newRecorder(t, Options{})
	s := logging("v1", file)
	v := r.View(s)
	if v.Err() == nil || !strings.Contains(v.Err().Error(), file) {
		t.Fatalf("error %v", v.Err())
	}
	var x Exchange
	serve(v, &x, s)
	flushLog(t, r)
	wantLines(t, scrape(t, r), `headgate_telemetry_lost_total{headgate_telemetry_part="access_log"} 1`)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := r.Reopen(); err != nil {
		t.Fatal(err)
	}
	serve(v, &x, s)
	flushLog(t, r)
	if v.Err() != nil || countLines(t, file) != 1 {
		t.Errorf("error %v, %d lines", v.Err(), countLines(t, file))
	}
}

// stuck is a disk that takes nothing until it is freed.
type stuck struct {
	began chan struct{} // closed when the first write came
	once  sync.Once
	free  chan struct{}
	bytes.Buffer
}

func (s *stuck) Write(p []byte) (int, error) {
	s.once.Do(func() { close(s.began) })
	<-s.free
	return s.Buffer.Write(p)
}

// A disk that hangs costs lines, which are counted, and no request waits.
func TestSlowDisk(t *testing.T) {
	out := &stuck{began: make(chan struct{}), free: make(chan struct{})}
	r := newRecorder(t, Options{Stdout: out})
	s := logging("v1", "-")
	v := r.View(s)
	var x Exchange
	serve(v, &x, s)
	<-out.began
	const n = 10000
	for range n - 1 {
		serve(v, &x, s)
	}
	if got := len(r.logs.current.Load().file.shards[0].buf); got > logBuffer {
		t.Errorf("%d bytes wait, more than %d", got, logBuffer)
	}
	close(out.free)
	flushLog(t, r)
	written, lost := bytes.Count(out.Bytes(), []byte("\n")), int(r.logs.lost.Load())
	if written+lost != n || lost == 0 {
		t.Errorf("%d written and %d lost of %d", written, lost, n)
	}
	wantLines(t, scrape(t, r), fmt.Sprintf(`headgate_telemetry_lost_total{headgate_telemetry_part="access_log"} %d`, lost))
}

// Lines are written together, after logDelay, and by one wake-up.
func TestLinesAreWrittenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out writes
		l := newAccessLogs(&out, newDiscard(), 1)
		l.use(l.open("-"), false)
		v := &View{}
		var x Exchange
		get(&x, testSnapshot("v1", []string{"a"}, []string{"c"}))
		for range 5 {
			l.write(v, &x)
		}
		synctest.Wait()
		if got := out.all(); len(got) != 0 {
			t.Error("written at once")
		}
		advance(logDelay)
		if got := out.all(); len(got) != 1 || strings.Count(got[0], "\n") != 5 {
			t.Errorf("writes: %q", got)
		}
		if err := l.shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// writes keeps each write apart.
type writes struct {
	mu   sync.Mutex
	list []string
}

func (w *writes) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = append(w.list, string(p))
	return len(p), nil
}

func (w *writes) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.list)
}

// What waits at the end is written, and nothing after it.
func TestShutdownWritesTheRest(t *testing.T) {
	file := filepath.Join(t.TempDir(), "access.log")
	r, err := New(context.Background(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := logging("v1", file)
	v := r.View(s)
	var x Exchange
	serve(v, &x, s)
	if err := r.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	serve(v, &x, s)
	if n := countLines(t, file); n != 1 {
		t.Errorf("%d lines", n)
	}
	if err := r.Reopen(); err == nil {
		t.Error("reopened after the end")
	}
	if err := r.Shutdown(context.Background()); err != nil {
		t.Errorf("a second time: %v", err)
	}
}
