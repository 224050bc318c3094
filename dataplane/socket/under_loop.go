package socket

import "os"

// TLS in a loop. The coroutine that serves a connection reads and writes through
// crypto/tls, which waits by switching back to the loop like everything else. What waits
// holds the locks of crypto/tls, and nobody on the loop takes those for another's sake.

// pushInLoop writes what there is room for. If that is not all, it has left the loop to
// wait for more, or says that nobody can wait here.
func (u *Under) pushInLoop(p []byte) (n int, err error) {
	w := u.watch
	patient := w.member != nil && !u.brisk && !u.quick
	if patient && len(p) <= parcelBytes {
		n = w.sendInLoop(w.socket, p)
	} else {
		n, _ = sendNow(w.fd, p) // an error comes again
	}
	switch {
	case n == len(p):
	case patient:
		w.conn.Leave()
	default:
		err = os.ErrDeadlineExceeded
	}
	return n, err
}

// waitInLoop waits until something can be read. It ends as if by a deadline if that is
// to be, however it was said: TLS goes on after that, and after nothing else.
func (w *watch) waitInLoop() error {
	err := w.await(w.socket, w.until)
	if err == nil && w.conn.interrupted.Load() {
		err = os.ErrDeadlineExceeded
	}
	return err
}
