package manifest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
)

// Write writes a snapshot as a manifest, in the order in which the language
// declares its fields. Reading it gives the same snapshot again.
func Write(w io.Writer, s *configv1.Snapshot) error { return WriteMessage(w, s.ProtoReflect()) }

// WriteMessage writes any part of the language in the same way.
func WriteMessage(w io.Writer, m protoreflect.Message) error {
	root := messageNode(m)
	if len(root.Content) > 0 {
		root.Style = 0
	}
	encoder := yaml.NewEncoder(w)
	encoder.SetIndent(2)
	if err := encoder.Encode(root); err != nil {
		return err
	}
	return encoder.Close()
}

// WriteJSON writes a snapshot as indented JSON, which is a manifest too.
func WriteJSON(w io.Writer, s *configv1.Snapshot) error {
	data, err := protojson.Marshal(s)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, data, "", "  "); err != nil {
		return err
	}
	out.WriteByte('\n')
	_, err = escapeBreaks.WriteString(w, out.String())
	return err
}

// escapeBreaks writes the breaks that text refuses as escapes. In JSON it stands
// in strings only.
var escapeBreaks = strings.NewReplacer("\u0085", `\u0085`, "\u2028", `\u2028`, "\u2029", `\u2029`)

// flatWidth is the width up to which fields or elements stand on one line.
const flatWidth = 72

func messageNode(m protoreflect.Message) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		if fd := fields.Get(i); m.Has(fd) {
			n.Content = append(n.Content, textNode(fd.JSONName()), fieldNode(fd, m.Get(fd)))
		}
	}
	return flat(n)
}

func fieldNode(fd protoreflect.FieldDescriptor, v protoreflect.Value) *yaml.Node {
	if !fd.IsList() {
		return valueNode(fd, v)
	}
	n := &yaml.Node{Kind: yaml.SequenceNode}
	for i := range v.List().Len() {
		n.Content = append(n.Content, valueNode(fd, v.List().Get(i)))
	}
	if fd.Message() != nil {
		return n
	}
	return flat(n)
}

func valueNode(fd protoreflect.FieldDescriptor, v protoreflect.Value) *yaml.Node {
	switch fd.Kind() {
	case protoreflect.StringKind:
		return textNode(v.String())
	case protoreflect.BoolKind:
		return scalarNode("!!bool", strconv.FormatBool(v.Bool()))
	case protoreflect.BytesKind:
		return textNode(base64.StdEncoding.EncodeToString(v.Bytes()))
	case protoreflect.EnumKind:
		return enumNode(fd, v.Enum())
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return scalarNode("", strconv.FormatFloat(v.Float(), 'g', -1, 64))
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return nestedNode(v.Message())
	}
	return scalarNode("!!int", v.String())
}

func enumNode(fd protoreflect.FieldDescriptor, number protoreflect.EnumNumber) *yaml.Node {
	if value := fd.Enum().Values().ByNumber(number); value != nil {
		return textNode(string(value.Name()))
	}
	return scalarNode("!!int", strconv.Itoa(int(number)))
}

func nestedNode(m protoreflect.Message) *yaml.Node {
	switch known := m.Interface().(type) {
	case *durationpb.Duration:
		return textNode(durationText(known))
	case *structpb.ListValue:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for _, v := range known.GetValues() {
			n.Content = append(n.Content, anyNode(v))
		}
		return flat(n)
	}
	return messageNode(m)
}

// anyNode is a value of any type. The language has texts only.
func anyNode(v *structpb.Value) *yaml.Node {
	if s, ok := v.GetKind().(*structpb.Value_StringValue); ok {
		return textNode(s.StringValue)
	}
	n := &yaml.Node{}
	if err := n.Encode(v.AsInterface()); err != nil {
		return textNode(fmt.Sprint(v.AsInterface()))
	}
	return n
}

// durationText is a duration in its largest whole unit, down to seconds below
// an hour: 90s, 2h, 25ms.
func durationText(d *durationpb.Duration) string {
	value := d.AsDuration()
	exact := durationpb.New(value)
	switch {
	case exact.GetSeconds() != d.GetSeconds() || exact.GetNanos() != d.GetNanos():
		return fmt.Sprintf("%d.%09ds", d.GetSeconds(), d.GetNanos())
	case value != 0 && value%time.Hour == 0:
		return strconv.FormatInt(int64(value/time.Hour), 10) + "h"
	case value%time.Second == 0:
		return strconv.FormatInt(int64(value/time.Second), 10) + "s"
	case value%time.Millisecond == 0:
		return strconv.FormatInt(int64(value/time.Millisecond), 10) + "ms"
	}
	return strconv.FormatInt(int64(value), 10) + "ns"
}

// textNode is a text. One with the breaks that text refuses stands in double
// quotes, where they are escaped.
func textNode(s string) *yaml.Node {
	n := scalarNode("!!str", s)
	if strings.ContainsAny(s, "\u0085\u2028\u2029") {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

func scalarNode(tag, value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value}
}

// flat puts what is short on one line.
func flat(n *yaml.Node) *yaml.Node {
	if lineWidth(n, 0) <= flatWidth {
		n.Style = yaml.FlowStyle
	}
	return n
}

// lineWidth is about how wide a node is on one line. What is nested deeper than
// two levels, or holds a text of several lines or a list of messages, does not
// go on one.
func lineWidth(n *yaml.Node, depth int) int {
	switch {
	case n.Kind == yaml.ScalarNode && strings.Contains(n.Value, "\n"):
		return flatWidth + 1
	case n.Kind == yaml.ScalarNode:
		return len(n.Value) + 2
	case len(n.Content) > 0 && (depth > 2 || n.Style != yaml.FlowStyle && depth > 0):
		return flatWidth + 1
	}
	total := 2
	for _, c := range n.Content {
		if total += lineWidth(c, depth+1); total > flatWidth {
			break
		}
	}
	return total
}
