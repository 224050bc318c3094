package main

import (
	"fmt"
	"io"
	"strings"
)

// summarize writes one table with a line for each scenario: what the best of the
// peers and each other proxy needs, and the ratios.
func summarize(w io.Writer, results []result) error {
	var b strings.Builder
	b.WriteString("\n| scenario | | nginx | HAProxy | proxy | | ratio (min..max) | goal |\n")
	b.WriteString("| --- | --- | --: | --: | --- | --: | --- | --: |\n")
	for i := range results {
		for _, row := range results[i].rows() {
			b.WriteString(row)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// measure is one of the numbers that a scenario gives.
type measure struct {
	unit   string
	number func(*sample) float64
	goal   float64 // of the ratio, or of the number itself; 0: none
	itself bool
}

// measures are the numbers of a scenario that a line is written of.
func (s *scenario) measures() []measure {
	if s.idle {
		return []measure{{"KiB", held, s.goal, true}, {"KiB again", heldAgain, s.goal, true}}
	}
	list := []measure{{"µs", (*sample).perRequest, s.goal, false}}
	if s.share > 0 {
		const bar = 1.2 // of nginx's latency
		list = append(list, measure{"p50 µs", quantile(0.5), bar, false}, measure{"p99 µs", quantile(0.99), bar, false})
	}
	return list
}

// rows are the scenario's lines: one for each number and each proxy that is not
// a peer.
func (r *result) rows() []string {
	var list []string
	title := r.title()
	for _, m := range r.scenario.measures() {
		for i, t := range r.targets {
			if t.peer {
				continue
			}
			list = append(list, r.row(title, t.name, i, m))
			title = "" // said once
		}
	}
	return list
}

func (r *result) row(title, name string, proxy int, m measure) string {
	best := r.best(m.number)
	ratio := "no peer"
	if best >= 0 {
		s := spreadOf(r.ratios(proxy, best, m.number))
		ratio = fmt.Sprintf("%.2f (%.2f..%.2f)", s.median, s.least, s.most)
	}
	goal := ""
	if m.goal > 0 {
		goal = fmt.Sprintf("%.2f", m.goal)
	}
	if m.itself && m.goal > 0 {
		goal = fmt.Sprintf("%.0f %s", m.goal, strings.Fields(m.unit)[0])
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %.1f | %s | %s |\n", title, m.unit,
		r.ofPeer("nginx", m), r.ofPeer("haproxy", m), name, spreadOf(r.each(proxy, m.number)).median, ratio, goal)
}

// ofPeer is a peer's number; of HAProxy's the better of its two sizes of buffer.
func (r *result) ofPeer(name string, m measure) string {
	word := ""
	least := 0.0
	for i, t := range r.targets {
		if !t.peer || !strings.HasPrefix(t.name, name) {
			continue
		}
		if n := spreadOf(r.each(i, m.number)).median; word == "" || n < least {
			word, least = fmt.Sprintf("%.1f", n), n
		}
	}
	return word
}
