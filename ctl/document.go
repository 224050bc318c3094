package ctl

import (
	"bytes"
	"encoding/json"
	"fmt"

	"buf.build/go/protoyaml"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// structured reports whether the output is for programs.
func (c *CLI) structured() bool {
	return c.flags.output == formatYAML || c.flags.output == formatJSON
}

// writeMessage prints a message of the API as JSON or YAML, in JSON names.
func (c *CLI) writeMessage(m proto.Message) error {
	if c.flags.output == formatYAML {
		data, err := protoyaml.Marshal(m)
		if err != nil {
			return err
		}
		_, err = c.stdout.Write(data)
		return err
	}
	data, err := protojson.Marshal(m)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, data, "", "  "); err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.stdout, out.String())
	return err
}

// writePlain prints what is not a message of the API. Its names are those of
// its yaml tags in both forms.
func (c *CLI) writePlain(v any) error {
	data, err := yaml.Marshal(v)
	if err != nil {
		return err
	}
	if c.flags.output == formatYAML {
		_, err = c.stdout.Write(data)
		return err
	}
	var fields map[string]any
	if err := yaml.Unmarshal(data, &fields); err != nil {
		return err
	}
	encoder := json.NewEncoder(c.stdout)
	encoder.SetIndent("", "  ")
	return encoder.Encode(fields)
}

// compact takes the spaces out of JSON. protojson puts some in at random.
func compact(data []byte) []byte {
	var out bytes.Buffer
	if json.Compact(&out, data) != nil {
		return data
	}
	return out.Bytes()
}

// writeLine prints a message as JSON in one line.
func (c *CLI) writeLine(m proto.Message) error {
	data, err := protojson.Marshal(m)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.stdout, "%s\n", compact(data))
	return err
}
