package ctl

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxConfigBytes bounds the config file. A context takes about 200 bytes.
const maxConfigBytes = 1 << 20

// access is how to be let in: file names, read when a connection is made.
type access struct {
	CA    string `yaml:"ca,omitempty"`
	Cert  string `yaml:"cert,omitempty"`
	Key   string `yaml:"key,omitempty"`
	Token string `yaml:"tokenFile,omitempty"`
	TLS   bool   `yaml:"tls,omitempty"`
}

// place is a named target in the config file.
type place struct {
	Name   string `yaml:"name"`
	Target string `yaml:"target"`
	access `yaml:",inline"`
}

// config is the config file.
type config struct {
	Current  string  `yaml:"current,omitempty"` // name of the context in use; "": none
	Contexts []place `yaml:"contexts,omitempty"`
}

// find is the context of that name.
func (f *config) find(name string) (*place, bool) {
	i := slices.IndexFunc(f.Contexts, func(p place) bool { return p.Name == name })
	if i < 0 {
		return nil, false
	}
	return &f.Contexts[i], true
}

// names are those of all contexts, in the order of the file.
func (f *config) names() []string {
	names := make([]string, len(f.Contexts))
	for i, p := range f.Contexts {
		names[i] = p.Name
	}
	return names
}

// configPath is where the config file is, whether it exists or not. It follows
// the XDG base directory specification.
func (c *CLI) configPath() (string, error) {
	if path := c.env.get("HEADGATE_CONFIG"); path != "" {
		return path, nil
	}
	if dir := c.env.get("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "headgate", "config.yaml"), nil
	}
	if home := c.env.get("HOME"); home != "" {
		return filepath.Join(home, ".config", "headgate", "config.yaml"), nil
	}
	return "", errors.New("no config file: neither XDG_CONFIG_HOME nor HOME is set")
}

// readConfig reads the config file. One that is not there is empty.
func (c *CLI) readConfig() (*config, error) {
	path, err := c.configPath()
	if err != nil {
		return &config{}, nil //nolint:nilerr // where there is nowhere to look, there is no file
	}
	data, err := readBounded(path, maxConfigBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return &config{}, nil
	}
	if err != nil {
		return nil, err
	}
	file := new(config)
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	decoder.KnownFields(true)
	if err := decoder.Decode(file); err != nil && len(bytes.TrimSpace(data)) > 0 {
		return nil, fmt.Errorf("%s: %s", path, inOneLine(err))
	}
	return file, nil
}

// inOneLine leaves out of an error of the YAML package what is of no use to a
// reader: the names of Go types.
func inOneLine(err error) string {
	var wrong *yaml.TypeError
	if !errors.As(err, &wrong) {
		return strings.TrimPrefix(err.Error(), "yaml: ")
	}
	return goType.ReplaceAllString(strings.Join(wrong.Errors, "; "), "")
}

var goType = regexp.MustCompile(` in type [\w.]+`)

// writeConfig replaces the config file whole, so that a reader never sees half
// of one.
func (c *CLI) writeConfig(file *config) error {
	path, err := c.configPath()
	if err != nil {
		return err
	}
	data, err := yaml.Marshal(file)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	next := path + ".next"
	if err := os.WriteFile(next, data, 0o600); err != nil {
		return err
	}
	return os.Rename(next, path)
}

// readBounded reads a file of at most limit bytes.
func readBounded(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("%s: larger than %d bytes", path, limit)
	}
	return os.ReadFile(path)
}
