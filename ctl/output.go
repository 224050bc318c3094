package ctl

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// format is a form of output.
type format string

// The forms of output.
const (
	formatTable format = "table"
	formatWide  format = "wide"
	formatYAML  format = "yaml"
	formatJSON  format = "json"
	formatName  format = "name"
)

var formats = []string{string(formatTable), string(formatWide), string(formatYAML), string(formatJSON), string(formatName)}

// String, Set and Type make a format a flag.
func (f *format) String() string { return string(*f) }

// Set takes one of the known forms.
func (f *format) Set(s string) error {
	if slices.Contains(formats, s) {
		*f = format(s)
		return nil
	}
	return fmt.Errorf("must be one of %s", strings.Join(formats, ", "))
}

// Type is what the help shows in the place of a value.
func (f *format) Type() string { return "FORMAT" }

// table is rows of text under titles. A column whose title begins with "+" is
// shown only when wide output is asked for.
type table struct {
	titles []string
	rows   [][]string
}

func newTable(titles ...string) *table { return &table{titles: titles} }

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// addSome adds a row whose last cells are empty.
func (t *table) addSome(cells ...string) {
	t.rows = append(t.rows, append(cells, make([]string, len(t.titles)-len(cells))...))
}

// write prints the table with three spaces between columns and none at the end
// of a line. An empty cell shows as "-".
func (t *table) write(w io.Writer, wide bool) {
	width := make([]int, len(t.titles))
	lines := append([][]string{t.titles}, t.rows...)
	for _, line := range lines {
		for i, cell := range line {
			width[i] = max(width[i], utf8.RuneCountInString(cellText(cell)))
		}
	}
	for _, line := range lines {
		var text strings.Builder
		for i, cell := range line {
			if strings.HasPrefix(t.titles[i], "+") && !wide {
				continue
			}
			fmt.Fprintf(&text, "%-*s   ", width[i], cellText(cell))
		}
		fmt.Fprintln(w, strings.TrimRight(text.String(), " "))
	}
}

func cellText(cell string) string {
	if cell == "" {
		return "-"
	}
	return printable(strings.TrimPrefix(cell, "+"))
}

// printable takes away what could move a terminal's cursor or colours: names
// and messages may come from afar.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) || r == utf8.RuneError {
			return '?'
		}
		return r
	}, s)
}

// age is a span of time in one or two units, as kubectl shows it: 45s, 3m,
// 5h, 2d.
func age(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < 3*time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	default:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
}

// short is the first 12 digits of a digest, which is enough for people.
func short(digest string) string {
	if len(digest) > 12 {
		return digest[:12]
	}
	return digest
}

// plural is "1 route" or "3 routes".
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// colour reports whether w is a terminal whose reader has not refused colours
// (no-color.org).
func (c *CLI) colour(w io.Writer) bool {
	if c.env.get("NO_COLOR") != "" || c.env.get("TERM") == "dumb" {
		return false
	}
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && file.Name() != os.DevNull
}

// say writes words for the reader to stderr.
func (c *CLI) say(layout string, args ...any) {
	fmt.Fprintf(c.stderr, layout+"\n", args...)
}
