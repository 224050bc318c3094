package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// result is a scenario's samples, by round and then by proxy.
type result struct {
	scenario scenario
	targets  []target
	rate     float64 // requests a second that arrived by themselves
	rounds   [][]sample
}

// title is the scenario in words.
func (r *result) title() string {
	if r.rate > 0 {
		return fmt.Sprintf("%s, %.0f a second", r.scenario.what, r.rate)
	}
	return r.scenario.what
}

// spread is the middle and the ends of some numbers.
type spread struct{ least, median, most float64 }

func spreadOf(values []float64) spread {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return spread{sorted[0], (sorted[(n-1)/2] + sorted[n/2]) / 2, sorted[n-1]}
}

// each returns one number of a proxy for every round.
func (r *result) each(proxy int, number func(*sample) float64) []float64 {
	values := make([]float64, len(r.rounds))
	for i := range r.rounds {
		values[i] = number(&r.rounds[i][proxy])
	}
	return values
}

// best is the peer with the lowest median; a ratio is to its value in the same
// round, since both then ran on the same machine in the same mood.
func (r *result) best(number func(*sample) float64) int {
	best, least := -1, 0.0
	for i, t := range r.targets {
		if !t.peer {
			continue
		}
		if m := spreadOf(r.each(i, number)).median; best < 0 || m < least {
			best, least = i, m
		}
	}
	return best
}

// ratios are a proxy's numbers over those of the best peer, by round.
func (r *result) ratios(proxy, best int, number func(*sample) float64) []float64 {
	values, to := r.each(proxy, number), r.each(best, number)
	for i := range values {
		values[i] /= to[i]
	}
	return values
}

// write reports in Markdown.
func (r *result) write(w io.Writer) error {
	if r.scenario.idle {
		return r.writeIdle(w)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n## %s: %s\n\n", r.scenario.name, r.title())
	b.WriteString("| proxy | CPU µs/request | ratio, median (min..max) | ratio by round | p50 µs | p99 µs | requests/s | core busy |\n")
	b.WriteString("| --- | --: | --: | --- | --: | --: | --: | --: |\n")
	best := r.best((*sample).perRequest)
	for i, t := range r.targets {
		ratios := r.ratios(i, best, (*sample).perRequest)
		s := spreadOf(ratios)
		fmt.Fprintf(&b, "| %s | %.1f | %.2f (%.2f..%.2f) | %s | %.0f | %.0f | %.0f | %.0f%% |\n", t.name,
			spreadOf(r.each(i, (*sample).perRequest)).median, s.median, s.least, s.most, listed(ratios),
			spreadOf(r.each(i, quantile(0.5))).median, spreadOf(r.each(i, quantile(0.99))).median,
			spreadOf(r.each(i, perSecond)).median, spreadOf(r.each(i, busy)).median)
	}
	taken := spreadOf(r.each(0, func(s *sample) float64 { return 100 * s.noise }))
	fmt.Fprintf(&b, "\nOthers took %.0f%% of a core (%.0f..%.0f).", taken.median, taken.least, taken.most)
	if taken.median > 20 {
		b.WriteString(" That is too much to believe a ratio.")
	}
	b.WriteString("\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *result) writeIdle(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## %s: %s\n\n", r.scenario.name, r.title())
	b.WriteString("| proxy | KiB a connection, median (min..max) | of as many more after they closed |\n| --- | --: | --: |\n")
	for i, t := range r.targets {
		s, again := spreadOf(r.each(i, held)), spreadOf(r.each(i, heldAgain))
		fmt.Fprintf(&b, "| %s | %.1f (%.1f..%.1f) | %.1f (%.1f..%.1f) |\n", t.name, s.median, s.least, s.most, again.median, again.least, again.most)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func listed(values []float64) string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = fmt.Sprintf("%.2f", v)
	}
	return strings.Join(words, " ")
}

func quantile(q float64) func(*sample) float64 {
	return func(s *sample) float64 { return float64(s.latency.quantile(q)) / float64(time.Microsecond) }
}

func perSecond(s *sample) float64 { return float64(s.requests) / s.wall.Seconds() }

func held(s *sample) float64 { return float64(s.idle) / 1024 }

func heldAgain(s *sample) float64 { return float64(s.again) / 1024 }

func busy(s *sample) float64 { return 100 * s.cpu.Seconds() / s.wall.Seconds() }
