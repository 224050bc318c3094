package manifest

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// text is a source as the rest of the package reads it: UTF-8, with lines that
// end where everybody says that they end. A carriage return alone is a line
// break (YAML 1.2.2 section 5.4) and becomes a newline. U+0085, U+2028 and
// U+2029 are breaks to YAML 1.1, which the parser reads, and none to YAML 1.2
// nor to an editor that counts lines: they are refused.
func text(source Source) ([]byte, *Fault) {
	data := source.Data
	if bytes.IndexByte(data, '\r') >= 0 {
		data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
		data = bytes.ReplaceAll(data, []byte("\r"), []byte("\n"))
	}
	for at := 0; at < len(data); {
		r, size := utf8.DecodeRune(data[at:])
		switch {
		case r == utf8.RuneError && size == 1:
			return nil, textFault(source.Name, data, at, fmt.Sprintf("byte 0x%02x is not UTF-8", data[at]), "save the file as UTF-8")
		case r == '\u0085', r == '\u2028', r == '\u2029':
			return nil, textFault(source.Name, data, at, fmt.Sprintf("%U is a line break in one version of YAML and none in another", r),
				fmt.Sprintf(`write it as "\u%04x", in double quotes`, r))
		}
		at += size
	}
	return data, nil
}

// textFault is a fault at a byte of a file.
func textFault(file string, data []byte, at int, message, hint string) *Fault {
	start := bytes.LastIndexByte(data[:at], '\n') + 1
	line := data[start:lineEnd(data, at)]
	return &Fault{
		File: file, Message: message, Hint: hint, Width: 1,
		Line:   bytes.Count(data[:start], []byte("\n")) + 1,
		Column: utf8.RuneCount(data[start:at]) + 1,
		Source: string(bytes.ToValidUTF8(bytes.TrimRight(line, "\n"), []byte("\uFFFD"))),
	}
}
