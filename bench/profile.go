package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// profile begins a CPU profile of each data plane, as long as the round if nothing
// is repeated. What it returns waits for them.
func (p plan) profile(all []*running, r *result) (wait func() error) {
	length := p.each * time.Duration(len(all))
	var ends []chan error
	for _, proxy := range all {
		if p.profiles == "" || proxy.peer {
			continue
		}
		end := make(chan error, 1)
		ends = append(ends, end)
		file := filepath.Join(p.profiles, fmt.Sprintf("%s-%s-%d.pprof", proxy.name, r.scenario.name, len(r.rounds)))
		go func() { end <- proxy.profile(file, length) }()
	}
	return func() error {
		var fault error
		for _, end := range ends {
			fault = errors.Join(fault, <-end)
		}
		return fault
	}
}

// profile writes a CPU profile of the process to a file.
func (r *running) profile(file string, length time.Duration) error {
	seconds := int(max(1, length/time.Second))
	answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/debug/pprof/profile?seconds=%d", r.admin, seconds)) //nolint:noctx // it ends by itself
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the profile of %s: %s", r.name, answer.Status)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return err
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, answer.Body)
	return errors.Join(err, out.Close())
}
