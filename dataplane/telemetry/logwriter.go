package telemetry

import (
	"context"
	"errors"
	"time"
)

// run is the writing goroutine. It sleeps while nothing is logged.
func (l *accessLogs) run() {
	defer close(l.done)
	timer := time.NewTimer(logDelay)
	timer.Stop()
	for {
		select {
		case <-l.wake:
			timer.Reset(logDelay)
		case <-l.full:
			l.flush()
		case <-timer.C:
			l.flush()
		case call := <-l.calls:
			call.reply <- l.serve(call)
		case <-l.quit:
			l.closeAll()
			return
		}
	}
}

func (l *accessLogs) serve(call logCall) error {
	l.flush()
	if !call.reopen {
		return nil
	}
	var errs []error
	for _, f := range l.listed() {
		f.disconnect()
		l.connect(f)
		errs = append(errs, f.err())
	}
	return errors.Join(errs...)
}

// ask has the writing goroutine do something and waits for it.
func (l *accessLogs) ask(ctx context.Context, reopen bool) error {
	call := logCall{reopen, make(chan error, 1)}
	select {
	case l.calls <- call:
	case <-l.done:
		return ErrShutdown
	case <-ctx.Done():
		return errors.Join(errLogBusy, ctx.Err())
	}
	select {
	case err := <-call.reply:
		return err
	case <-ctx.Done():
		return errors.Join(errLogBusy, ctx.Err())
	}
}

// listed is the files in use.
func (l *accessLogs) listed() []*logFile {
	l.mu.Lock()
	defer l.mu.Unlock()
	files := make([]*logFile, 0, len(l.files))
	for _, f := range l.files {
		files = append(files, f)
	}
	return files
}

// flush writes out what waits, and closes what is no longer used.
func (l *accessLogs) flush() {
	for _, f := range l.listed() {
		l.drain(f, false)
	}
	l.mu.Lock()
	closing := l.closing
	l.closing = nil
	l.mu.Unlock()
	for _, f := range closing {
		l.drain(f, true)
		f.disconnect()
	}
}

// drain writes the buffers of a file. If last is set, they take no more lines.
func (l *accessLogs) drain(f *logFile, last bool) {
	for i := range f.shards {
		s := &f.shards[i]
		s.mu.Lock()
		buf, lines := s.buf, s.lines
		s.buf, s.lines, s.closed = s.spare[:0], 0, last
		s.mu.Unlock()
		s.spare = buf
		if len(buf) > 0 && !l.put(f, buf) {
			l.lost.Add(lines)
		}
	}
}

// put writes some lines to the file; false says that they are lost, perhaps not
// all of them.
func (l *accessLogs) put(f *logFile, lines []byte) bool {
	if f.out == nil && time.Since(f.tried) >= logRetry {
		l.connect(f)
	}
	if f.out == nil {
		return false
	}
	_, err := f.out.Write(lines)
	l.report(f, err)
	return err == nil
}

func (f *logFile) disconnect() {
	if f.closer != nil {
		f.closer.Close()
	}
	f.out, f.closer = nil, nil
}

// closeAll ends the logs: what waits is written, and no more is taken.
func (l *accessLogs) closeAll() {
	l.use(nil, false)
	l.flush()
}

// shutdown stops the writing goroutine and waits for it.
func (l *accessLogs) shutdown(ctx context.Context) error {
	close(l.quit)
	select {
	case <-l.done:
		return nil
	case <-ctx.Done():
		return errors.Join(errLogBusy, ctx.Err())
	}
}
