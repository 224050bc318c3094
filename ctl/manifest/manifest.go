// Package manifest is the configuration language as text: it reads a snapshot
// from YAML or JSON files and writes it out again. It knows where in the files
// each field stands, so that faults found anywhere, in here, by the compiler
// or by a server, are shown at their line with what is expected there. It
// judges form only: names, types and syntax. What the fields mean is for
// package snapshot.
package manifest

import (
	"errors"
	"fmt"
	"io"
	"os"

	"google.golang.org/protobuf/reflect/protoreflect"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
)

// MaxBytes bounds the files of a manifest together.
const MaxBytes = 64 << 20

// Stdin is the name that stands for standard input.
const Stdin = "-"

// Manifest is a snapshot that was read, and where it was read from.
type Manifest struct {
	Snapshot  *configv1.Snapshot
	documents []*document
}

// Source is a file that has been read.
type Source struct {
	Name string // as faults show it
	Data []byte
}

// Read reads files, each with one document or several, into one snapshot: lists
// are appended in the order of the files, anything else may be given once. "-"
// is standard input. The manifest is nil if there is a fault.
func Read(files ...string) (*Manifest, []Fault) { return ReadWith(os.Stdin, files...) }

// ReadWith is Read with another standard input.
func ReadWith(stdin io.Reader, files ...string) (*Manifest, []Fault) {
	var sources []Source
	var faults []Fault
	left := int64(MaxBytes)
	for _, file := range files {
		data, err := readFile(stdin, file, left)
		if err != nil {
			faults = append(faults, Fault{File: shownName(file), Message: err.Error()})
			continue
		}
		left -= int64(len(data))
		sources = append(sources, Source{Name: shownName(file), Data: data})
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return Parse(sources...)
}

func shownName(file string) string {
	if file == Stdin {
		return "<stdin>"
	}
	return file
}

// readFile reads at most limit bytes.
func readFile(stdin io.Reader, file string, limit int64) ([]byte, error) {
	in := stdin
	if file != Stdin {
		f, err := os.Open(file)
		if err != nil {
			return nil, pathless(err)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err != nil {
		return nil, pathless(err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("is too large: the files of a manifest have at most %d MiB together", MaxBytes>>20)
	}
	return data, nil
}

// pathless leaves out the name of the file, which is shown before the message.
func pathless(err error) error {
	if at, ok := errors.AsType[*os.PathError](err); ok {
		return at.Err
	}
	return err
}

// Parse makes one snapshot of sources that have been read.
func Parse(sources ...Source) (*Manifest, []Fault) {
	m := &Manifest{Snapshot: &configv1.Snapshot{}}
	var faults []Fault
	for _, source := range sources {
		data, fault := text(source)
		if fault != nil {
			faults = append(faults, *fault)
			continue
		}
		for _, piece := range split(data) {
			d, found := newDocument(source.Name, piece)
			faults = append(faults, found...)
			if d != nil && len(faults) == 0 {
				faults = append(faults, m.add(d)...)
			}
		}
	}
	if len(faults) == 0 && len(m.documents) == 0 {
		faults = append(faults, Fault{File: firstName(sources), Message: "there is nothing in it", Hint: "a manifest has " + topLevel()})
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return m, nil
}

func firstName(sources []Source) string {
	if len(sources) == 0 {
		return ""
	}
	return sources[0].Name
}

// add appends what a document says to what those before it said.
func (m *Manifest) add(d *document) []Fault {
	var faults []Fault
	all := m.Snapshot.ProtoReflect()
	d.base = map[string]int{}
	d.snapshot.ProtoReflect().Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsList():
			list := all.Mutable(fd).List()
			d.base[fd.JSONName()] = list.Len()
			for i := range v.List().Len() {
				list.Append(v.List().Get(i))
			}
		case all.Has(fd):
			faults = append(faults, m.twice(d, fd.JSONName()))
		default:
			all.Set(fd, v)
		}
		return true
	})
	m.documents = append(m.documents, d)
	return faults
}

// twice is the fault of a field that was given before.
func (m *Manifest) twice(d *document, name string) Fault {
	file, line, _ := m.Locate(name)
	key, _ := child(d.root, name)
	return d.fault(key, name, fmt.Sprintf("%s is given a second time", name), fmt.Sprintf("the first is at %s:%d", file, line))
}
