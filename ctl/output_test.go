package ctl

import (
	"bytes"
	"testing"
	"time"
)

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second:          "0s",
		0:                     "0s",
		45 * time.Second:      "45s",
		119 * time.Second:     "119s",
		2 * time.Minute:       "2m",
		179 * time.Minute:     "179m",
		3 * time.Hour:         "3h",
		47 * time.Hour:        "47h",
		48 * time.Hour:        "2d",
		1000 * 24 * time.Hour: "1000d",
	} {
		if got := age(d); got != want {
			t.Errorf("age(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestTable(t *testing.T) {
	rows := newTable("NAME", "+DIGEST", "AGE")
	rows.add("a", "0123", "3m")
	rows.add("größer", "", "")
	for wide, want := range map[bool]string{
		false: "NAME     AGE\na        3m\ngrößer   -\n",
		true:  "NAME     DIGEST   AGE\na        0123     3m\ngrößer   -        -\n",
	} {
		var out bytes.Buffer
		rows.write(&out, wide)
		if out.String() != want {
			t.Errorf("wide=%v:\n%swant\n%s", wide, &out, want)
		}
	}
}

// What comes from afar must not reach the terminal as a command to it.
func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain":             "plain",
		"\x1b[31mred\x1b[m": "?[31mred?[m",
		"line\r\nbreak":     "line??break",
		"bad\xffbyte":       "bad?byte",
		"\u009bcsi":         "?csi",
		"grüße":             "grüße",
	} {
		if got := printable(in); got != want {
			t.Errorf("printable(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestColour(t *testing.T) {
	c := &CLI{}
	if c.colour(new(bytes.Buffer)) {
		t.Error("a buffer is no terminal")
	}
}
