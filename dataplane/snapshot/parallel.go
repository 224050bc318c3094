package snapshot

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// parallel calls do with 0 to n-1, on all processors, and returns when all calls
// have. A panic of one of them is one of parallel, where it can be recovered.
func parallel(n int, do func(i int)) {
	var next atomic.Int64
	var failed atomic.Pointer[any]
	work := func() {
		defer func() {
			if v := recover(); v != nil {
				failed.Store(&v)
			}
		}()
		for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
			do(int(i))
		}
	}
	var workers sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) - 1 {
		workers.Go(work)
	}
	work()
	workers.Wait()
	if v := failed.Load(); v != nil {
		panic(*v)
	}
}
