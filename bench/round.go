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
	cores  int           // of each proxy, where the scenario does not say

	profiles string        // the directory of CPU profiles; "": none are made
	think    time.Duration // of the backend
}

// sample is what one proxy did in one round.
type sample struct {
	cpu      time.Duration // of its processes, user and system
	wall     time.Duration
	requests int64
	latency  histogram
	idle     int64   // bytes a connection, in the scenarios that measure that
	again    int64   // the same when all had been closed and as many came again
	noise    float64 // part of a core that neither load nor proxies used in this round
}

// perRequest is the CPU time of one request, in microseconds.
func (s *sample) perRequest() float64 {
	return float64(s.cpu.Nanoseconds()) / 1e3 / float64(s.requests)
}

// round starts all proxies afresh, loads them in turns and stops them. Two
// starts of the same proxy differ for as long as they last, so a round with one
// start each is the unit of the statistics.
func (p plan) round(ctx context.Context, where site, r *result) (_ []sample, err error) {
	if where.dir, err = os.MkdirTemp(where.dir, "round"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(where.dir)
	var all []*running
	defer func() {
		for _, proxy := range all {
			proxy.stop()
		}
	}()
	for _, t := range r.targets {
		proxy, err := where.start(ctx, t, &r.scenario)
		if err != nil {
			return nil, err
		}
		all = append(all, proxy)
	}
	if r.scenario.idle {
		return idleMemory(all, r.scenario)
	}
	return p.turns(all, where.backend, r)
}

// turns loads the proxies one after the other, slice by slice, each lap
// beginning with another one.
func (p plan) turns(all []*running, b *backend, r *result) ([]sample, error) {
	pids, err := p.ready(all, r)
	if err != nil {
		return nil, err
	}
	slice := p.slice
	if r.rate > 0 {
		slice *= openSlices
	}
	profiled := p.profile(all, r)
	others := startNoise(pids)
	samples := make([]sample, len(all))
	for lap := range int(max(1, p.each/slice)) {
		for turn := range all {
			i := (lap + turn) % len(all)
			if err := samples[i].measure(all[i], b, slice); err != nil {
				return nil, err
			}
		}
	}
	for i := range samples {
		samples[i].noise = others.share()
	}
	return samples, profiled()
}

// openSlices is how much longer slices are while requests arrive by themselves:
// the first after a pause meet a cold core, and should weigh little.
const openSlices = 4

// ready opens the connections and warms them up.
func (p plan) ready(all []*running, r *result) (pids []int, err error) {
	for _, proxy := range all {
		if proxy.load, err = connect(proxy.at, r.scenario); err != nil {
			return nil, fmt.Errorf("%s: %w", proxy.name, err)
		}
		if t := proxy.load.slice(p.warmUp); t.fault != nil {
			return nil, fmt.Errorf("%s, warming up: %w", proxy.name, t.fault)
		}
		proxy.pids = descendants(proxy.process.Process.Pid)
		pids = append(pids, proxy.pids...)
	}
	if r.scenario.share > 0 && r.rate == 0 {
		r.rate = r.scenario.share * peak(all)
	}
	for _, proxy := range all {
		proxy.load.rate = r.rate
	}
	return pids, nil
}

// peak is how many requests a second nginx answers at most, or the first proxy
// if nginx is not there.
func peak(all []*running) float64 {
	const window = 2 * time.Second
	nginx := all[0]
	for _, proxy := range all {
		if proxy.name == nginxName {
			nginx = proxy
		}
	}
	return float64(nginx.load.slice(window).latency.total) / window.Seconds()
}

// measure adds one slice of load on r. A proxy that answers by itself, or asks
// the backend twice, does not do the work.
func (s *sample) measure(r *running, b *backend, d time.Duration) error {
	began, used, served := time.Now(), cpuTimes(r.pids), b.served.Load()
	t := r.load.slice(d)
	s.cpu += cpuTimes(r.pids) - used
	s.wall += time.Since(began)
	s.requests += t.latency.total
	s.latency.merge(&t.latency)
	if t.fault != nil {
		return fmt.Errorf("%s: %w", r.name, t.fault)
	}
	if served = b.served.Load() - served; served != t.latency.total {
		return fmt.Errorf("%s answered %d requests and made %d", r.name, t.latency.total, served)
	}
	return nil
}
