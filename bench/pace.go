package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// pace tells of arrivals at times drawn beforehand (Poisson) and closes due when
// the last was due. Each is due whether or not the ones before it were answered.
//
// A timer of the kernel says when: the runtime's own round up to a millisecond
// while nothing else wakes the program, which is as long as several requests
// take.
func pace(rate float64, until time.Time, due chan<- time.Time) error {
	defer close(due)
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("make a timer: %w", err)
	}
	timer := os.NewFile(uintptr(fd), "timer")
	defer timer.Close()
	expirations := make([]byte, 8)
	for at := time.Now(); ; {
		at = at.Add(time.Duration(rand.ExpFloat64() / rate * float64(time.Second)))
		if at.After(until) {
			return nil
		}
		if wait := time.Until(at); wait > 0 {
			when := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(wait))}
			if err := unix.TimerfdSettime(fd, 0, &when, nil); err != nil {
				return fmt.Errorf("set a timer: %w", err)
			}
			if _, err := timer.Read(expirations); err != nil {
				return fmt.Errorf("wait for a timer: %w", err)
			}
		}
		due <- at
	}
}
