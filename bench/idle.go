package main

import (
	"fmt"
	"time"
)

// rest is how long a proxy's collector and allocator have to give memory back.
const rest = 2 * time.Second

// idleMemory measures one proxy after the other.
func idleMemory(all []*running, s scenario) ([]sample, error) {
	samples := make([]sample, len(all))
	for i, r := range all {
		if err := samples[i].hold(r, s); err != nil {
			return nil, fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return samples, nil
}

// hold opens the connections of load, uses each once, lets them rest, and sees what
// the processes hold more than before. Then it closes them and does it again:
// what the first ones held should serve the second.
func (s *sample) hold(r *running, load scenario) error {
	few := load
	few.connections = dialers
	if err := r.used(few); err != nil { // what is made once is made now
		return err
	}
	r.load.close()
	before := residentBytes(r.pids)
	for _, to := range []*int64{&s.idle, &s.again} {
		if err := r.used(load); err != nil {
			return err
		}
		time.Sleep(rest)
		*to = (residentBytes(r.pids) - before) / int64(load.connections)
		if lost := r.load.once().fault; lost != nil {
			return fmt.Errorf("a connection was lost while idle: %w", lost)
		}
		r.load.close()
		time.Sleep(rest)
	}
	r.load = nil
	return nil
}

// used opens the connections of s and uses each once.
func (r *running) used(s scenario) (err error) {
	if r.load, err = connect(r.at, s); err != nil {
		return err
	}
	return r.load.once().fault
}
