package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// layout is who has which cores of the machine.
type layout struct {
	cores int   // of each proxy
	list  []int // those that this process may use
}

// layOut finds the machine's cores. It is done before this process gives any up.
func layOut() (layout, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return layout{}, fmt.Errorf("read the cores of this process: %w", err)
	}
	var l layout
	for core := range len(set) * 64 {
		if set.IsSet(core) {
			l.list = append(l.list, core)
		}
	}
	if len(l.list) < 2 {
		return layout{}, fmt.Errorf("two cores are needed; there are %v", l.list)
	}
	return l, nil
}

// with is the same machine with that many cores for each proxy.
func (l layout) with(cores int) (layout, error) {
	if cores < 1 || cores > len(l.list) {
		return layout{}, fmt.Errorf("no %d cores for a proxy: there are %v", cores, l.list)
	}
	l.cores = cores
	return l, nil
}

// proxy lists the cores of the proxies for taskset: the last ones.
func (l layout) proxy() string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(l.list[len(l.list)-l.cores:]), " ", ","), "[]")
}

// pinLoad keeps this program to as many cores as a proxy has: the first ones. If
// the machine has no more than that, both have the same. A thread passes its
// cores on to those it makes, so when all have them, all will.
func (l layout) pinLoad() error {
	var set unix.CPUSet
	for _, core := range l.list[:l.cores] {
		set.Set(core)
	}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			continue
		}
		if err := unix.SchedSetaffinity(id, &set); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("stay on cores %v: %w", l.list[:l.cores], err)
		}
	}
	runtime.GOMAXPROCS(l.cores)
	return nil
}

// cpuTime is what a process and its threads have used so far, user and system,
// in the kernel's nanoseconds: see clock_getcpuclockid(3).
func cpuTime(pid int) (time.Duration, error) {
	const processScheduled = 2 // CPUCLOCK_SCHED of the whole process
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|processScheduled), &ts); err != nil {
		return 0, fmt.Errorf("CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}

// cpuTimes is the sum over some processes. One that ended counts for nothing.
func cpuTimes(pids []int) time.Duration {
	var sum time.Duration
	for _, pid := range pids {
		if used, err := cpuTime(pid); err == nil {
			sum += used
		}
	}
	return sum
}

// machineTime is what all cores have worked so far, and what the hypervisor
// took from them, in ticks of 10 ms.
func machineTime() time.Duration {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(stat), "\n")
	const idle, waiting = 3, 4 // columns of proc_stat(5) that are no work
	var ticks int64
	for i, field := range strings.Fields(line)[1:] {
		if i != idle && i != waiting && i < 8 { // the guests' are in the first two already
			n, _ := strconv.ParseInt(field, 10, 64) // not a number: counts for nothing
			ticks += n
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// noise tells how much of the machine others use.
type noise struct {
	pids          []int // whose work is not noise, beside our own
	began         time.Time
	machine, ours time.Duration
}

func startNoise(pids []int) noise {
	pids = append(pids, os.Getpid())
	return noise{pids, time.Now(), machineTime(), cpuTimes(pids)}
}

// share is the part of a core that others had since the start.
func (n noise) share() float64 {
	others := machineTime() - n.machine - (cpuTimes(n.pids) - n.ours)
	return max(0, others.Seconds()/time.Since(n.began).Seconds())
}

// descendants returns root and the processes below it.
func descendants(root int) []int {
	children := map[int][]int{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return []int{root}
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if parent, ok := parentOf(pid); ok {
			children[parent] = append(children[parent], pid)
		}
	}
	tree := []int{root}
	for i := 0; i < len(tree); i++ {
		tree = append(tree, children[tree[i]]...)
	}
	return tree
}

// parentOf reads the fourth field of /proc/PID/stat; the second, the name in
// parentheses, may hold anything.
func parentOf(pid int) (int, bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 2 {
		return 0, false
	}
	parent, err := strconv.Atoi(fields[1])
	return parent, err == nil
}

// residentBytes is the memory of some processes that is in RAM now.
func residentBytes(pids []int) int64 {
	var sum int64
	for _, pid := range pids {
		statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
		if err != nil {
			continue
		}
		if fields := strings.Fields(string(statm)); len(fields) > 1 {
			pages, _ := strconv.ParseInt(fields[1], 10, 64) // not a number: counts for nothing
			sum += pages * int64(os.Getpagesize())
		}
	}
	return sum
}
