package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

// plan is how long everything is measured.
type plan struct {
	rounds int
	each   time.Duration // of load on each proxy in a round
	slice  time.Duration // of load on one proxy before the next has its turn
	warmUp time.Duration // of load on each proxy that is not counted
}

// sample is what one proxy did in one round.
type sample struct {
	cpu      time.Duration // of its processes, user and system
	wall     time.Duration
	requests int64
	latency  histogram
	idle     int64   // bytes a connection, in the scenario that measures that
	noise    float64 // part of a core that neither load nor proxies used in this round
}

// perRequest is the CPU time of one request, in microseconds.
func (s *sample) perRequest() float64 {
	return float64(s.cpu.Nanoseconds()) / 1e3 / float64(s.requests)
}

// round starts all proxies afresh, loads them in turns and stops them. Two
// starts of the same proxy differ for as long as they last, so a round with one
// start each is the unit of the statistics.
func (p plan) round(ctx context.Context, where site, list []target, s scenario) (_ []sample, err error) {
	if where.dir, err = os.MkdirTemp(where.dir, "round"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(where.dir)
	var all []*running
	defer func() {
		for _, r := range all {
			r.stop()
		}
	}()
	for _, t := range list {
		r, err := where.start(ctx, t)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	if s.idle {
		return idleMemory(all, s)
	}
	return p.turns(all, s)
}

// turns loads the proxies one after the other, slice by slice, each lap
// beginning with another one.
func (p plan) turns(all []*running, s scenario) ([]sample, error) {
	for _, r := range all {
		var err error
		if r.load, err = connect(r.address, s); err != nil {
			return nil, fmt.Errorf("%s: %w", r.name, err)
		}
		if t := r.load.slice(p.warmUp); t.fault != nil {
			return nil, fmt.Errorf("%s, warming up: %w", r.name, t.fault)
		}
		r.pids = descendants(r.process.Process.Pid)
	}
	var pids []int
	for _, r := range all {
		pids = append(pids, r.pids...)
	}
	others := startNoise(pids)
	samples := make([]sample, len(all))
	for lap := range int(max(1, p.each/p.slice)) {
		for turn := range all {
			i := (lap + turn) % len(all)
			if err := samples[i].measure(all[i], p.slice); err != nil {
				return nil, err
			}
		}
	}
	for i := range samples {
		samples[i].noise = others.share()
	}
	return samples, nil
}

// measure adds one slice of load on r.
func (s *sample) measure(r *running, d time.Duration) error {
	began, used := time.Now(), cpuTimes(r.pids)
	t := r.load.slice(d)
	s.cpu += cpuTimes(r.pids) - used
	s.wall += time.Since(began)
	s.requests += t.latency.total
	s.latency.merge(&t.latency)
	if t.fault != nil {
		return fmt.Errorf("%s: %d requests failed: %w", r.name, t.failed, t.fault)
	}
	return nil
}

// idleMemory opens the connections of s to each proxy in turn, uses each once,
// lets them rest, and sees what the processes hold more than before.
func idleMemory(all []*running, s scenario) ([]sample, error) {
	const rest = 3 * time.Second // for collectors and allocators to give back
	samples := make([]sample, len(all))
	for i, r := range all {
		before := residentBytes(r.pids)
		var err error
		if r.load, err = connect(r.address, s); err != nil {
			return nil, fmt.Errorf("%s: %w", r.name, err)
		}
		if t := r.load.once(); t.fault != nil {
			return nil, fmt.Errorf("%s: %d requests failed: %w", r.name, t.failed, t.fault)
		}
		time.Sleep(rest)
		samples[i].idle = (residentBytes(r.pids) - before) / int64(s.connections)
		r.load.close()
		r.load = nil
	}
	return samples, nil
}
