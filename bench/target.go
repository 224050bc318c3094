package main

import (
	"bytes"
	"embed"
	"path/filepath"
	"strconv"
	"strings"
	"text/template"
)

//go:embed peers
var configurations embed.FS

// target is a proxy that is measured. Its configuration and the words of its
// command are templates over a setting.
type target struct {
	name          string
	configuration string // a file in peers/
	command       []string
	environment   []string // beside ours
	version       string   // the flag that makes it say its version
	peer          bool     // ratios are taken to the best of the peers
	largeBuffers  bool     // takes part where answers are large
}

// setting is what a configuration or command can name.
type setting struct {
	Name, Conf, Dir        string
	Port, TLSPort, Admin   int
	Backend, Calls, Sink   int // ports behind and beside the proxy
	Certificate, Key, Both string
	Cores                  int
	Log, Large, Traced     bool
}

// nginx is also the proxy whose peak the open loops are a share of.
const nginxName = "nginx"

// proxies returns what is measured: the peers, then each of the data plane's
// programs, of which there may be two builds to compare or none, then, if
// asked for, a second nginx.
func proxies(dataplanes string, twin bool) []target {
	nginx := target{name: nginxName, configuration: "nginx.conf", command: []string{"nginx", "-c", "{{.Conf}}"}, version: "-v", peer: true}
	haproxy := target{name: "haproxy", configuration: "haproxy.cfg", command: []string{"haproxy", "-db", "-f", "{{.Conf}}"}, version: "-v", peer: true}
	large := haproxy
	large.name, large.largeBuffers = "haproxy-64k", true
	list := []target{nginx, haproxy, large}
	for i, program := range strings.FieldsFunc(dataplanes, func(r rune) bool { return r == ',' }) {
		t := headgate(program)
		if i > 0 {
			t.name += "-" + strconv.Itoa(i+1)
		}
		list = append(list, t)
	}
	if twin {
		nginx.name, nginx.peer = "nginx-twin", false
		list = append(list, nginx)
	}
	return list
}

func headgate(program string) target {
	return target{
		name: "headgate", configuration: "headgate.yaml",
		command: []string{
			program, "--config", "{{.Conf}}", "--state-dir", "{{.Dir}}/{{.Name}}-state",
			"--control", "unix:{{.Dir}}/{{.Name}}.sock", "--admin", "127.0.0.1:{{.Admin}}",
		},
		environment: []string{
			"OTEL_TRACES_EXPORTER={{if .Traced}}otlp{{else}}none{{end}}", "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
			"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:{{.Sink}}",
		},
		version: "--version",
	}
}

// takesPart are the proxies that a scenario is measured on.
func (s *scenario) takesPart(list []target) []target {
	var in []target
	for _, t := range list {
		if !t.largeBuffers || s.large {
			in = append(in, t)
		}
	}
	return in
}

// filled is the target's configuration for a setting.
func (t *target) filled(s *setting) (string, error) {
	text, err := configurations.ReadFile("peers/" + t.configuration)
	if err != nil {
		return "", err
	}
	return fill(string(text), s)
}

// words fills the words of a command or the settings of an environment.
func words(templates []string, s *setting) ([]string, error) {
	list := make([]string, len(templates))
	for i, text := range templates {
		var err error
		if list[i], err = fill(text, s); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func fill(text string, s *setting) (string, error) {
	parsed, err := template.New("").Parse(text)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	err = parsed.Execute(&b, s)
	return b.String(), err
}

// confFile is where the configuration of t is written.
func (t *target) confFile(dir string) string {
	return filepath.Join(dir, t.name+filepath.Ext(t.configuration))
}
