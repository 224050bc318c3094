package http2

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2/hpack"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/dataplane/message"
)

// decoded is a block as text, one line a field, as far as the head took it.
func decoded(h *head) []string {
	var lines []string
	for p := range pseudoCount {
		if h.has(p) {
			lines = append(lines, fmt.Sprintf("%s=%s", pseudoNames[p], h.pseudo[p]))
		}
	}
	for _, f := range h.fields.All() {
		lines = append(lines, fmt.Sprintf("%s=%s", f.Name, f.Value))
	}
	return lines
}

// decodeBlock decodes a block that comes in pieces of a size.
func decodeBlock(d *decoder, block []byte, size int, o *Options) (*head, error) {
	h := getHead()
	d.begin()
	for len(block) > size {
		if err := d.write(h, slices.Clone(block[:size]), false, o); err != nil {
			return h, err
		}
		block = block[size:]
	}
	err := d.write(h, slices.Clone(block), true, o)
	h.finish()
	return h, err
}

// What x/net encodes is decoded as the same, in pieces of any size, whatever the
// table holds and however its size changes.
func TestDecoderAgreesWithEncoder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := (&Options{}).resolve()
		d := newDecoder(&o)
		var block bytes.Buffer
		e := hpack.NewEncoder(&block)
		for range rapid.IntRange(1, 30).Draw(t, "blocks") {
			for range rapid.IntRange(0, 2).Draw(t, "resizes") {
				e.SetMaxDynamicTableSize(rapid.SampledFrom([]uint32{0, 40, 100, 1000, 4096}).Draw(t, "size"))
			}
			block.Reset()
			_ = e.WriteField(hpack.HeaderField{Name: ":path", Value: "/"})
			want := []string{":path=/"}
			for _, p := range rapid.SliceOfN(fieldPairs, 0, 12).Draw(t, "pairs") {
				name := strings.ToLower(p.name)
				_ = e.WriteField(hpack.HeaderField{Name: name, Value: p.value, Sensitive: name == "vary"})
				want = append(want, name+"="+p.value)
			}
			h, err := decodeBlock(d, block.Bytes(), rapid.IntRange(1, 100).Draw(t, "piece"), &o)
			if err != nil {
				t.Fatal(err)
			}
			if got := decoded(h); !slices.Equal(got, want) {
				t.Fatalf("got %q, want %q", got, want)
			}
			putHead(h)
			if d.table.size > d.table.max || d.table.next-d.table.oldest > tableSlots || cap(d.table.text) > 2*tableBytes+1024 {
				t.Fatalf("%d bytes in a table of %d, text of %d", d.table.size, d.table.max, cap(d.table.text))
			}
		}
	})
}

// Every byte has its code, and x/net's decoder agrees on it.
func TestHuffmanCode(t *testing.T) {
	every := make([]byte, 0, 512)
	for c := range 256 {
		every = append(every, byte(c), 'e')
	}
	for n := range every {
		s := every[len(every)-n:]
		coded := appendHuffmanCoded(nil, s)
		if theirs := hpack.AppendHuffmanString(nil, string(s)); !bytes.Equal(coded, theirs) || len(coded) != huffmanLen(s) {
			t.Fatalf("%q is %x, they say %x", s, coded, theirs)
		}
		if back, ok := appendHuffman(nil, coded); !ok || !bytes.Equal(back, s) {
			t.Fatalf("%q came back as %q, %v", s, back, ok)
		}
	}
}

func TestHuffmanPadding(t *testing.T) {
	for coded, want := range map[string]string{
		"\x1f":             "a", // 00011 and three ones
		"\x1c\x7f":         "",  // 00011100 ...: ends with a zero among its padding
		"\x1e":             "",  // a zero in the padding
		"\x1f\xff":         "",  // more than 7 bits of padding
		"\xff\xff\xff":     "",
		"\xff\xff\xff\xff": "", // EOS
		"":                 "",
	} {
		back, ok := appendHuffman(nil, []byte(coded))
		_, err := hpack.HuffmanDecodeToString([]byte(coded))
		if ok != (err == nil) || ok && string(back) != want && want != "" {
			t.Errorf("%x is %q, %v; they say %v", coded, back, ok, err)
		}
	}
}

// A field that is too large is passed over, and the table stays in step: what
// follows means what the peer meant.
func TestDecoderPassesOver(t *testing.T) {
	o := (&Options{MaxHeaderBytes: 1000}).resolve()
	for name, large := range map[string][]byte{
		"value, for the table":  appendPlain(append([]byte{0x40}, "\x01a"...), make([]byte, 40_000)),
		"value":                 appendPlain(append([]byte{0x00}, "\x01a"...), make([]byte, 40_000)),
		"name, for the table":   append(appendPlain([]byte{0x40}, make([]byte, 40_000)), "\x01b"...),
		"name and value":        appendPlain(appendPlain([]byte{0x10}, make([]byte, 40_000)), make([]byte, 50_000)),
		"coded":                 append(appendInt([]byte{0x44}, 0x80, 7, 20_000), make([]byte, 20_000)...),
		"looked at, but larger": appendPlain(append([]byte{0x40}, "\x01a"...), bytes.Repeat([]byte("v"), 5000)),
	} {
		for _, size := range []int{1, 7, 16 << 10} {
			d := newDecoder(&o)
			small := append([]byte{0x40}, "\x03x-a\x01v"...)
			block := slices.Concat(small, large, append([]byte{0x40}, "\x03x-b\x01w"...))
			h, err := decodeBlock(d, block, size, &o)
			if err != nil || h.oversize == "" {
				t.Errorf("%s: %v, %q", name, err, h.oversize)
			}
			want := []string{"x-b=w"}
			next := []byte{0x80 | staticLast + 1}
			if large[0]&0x40 == 0 {
				want, next = []string{"x-b=w", "x-a=v"}, append(next, 0x80|staticLast+2)
			}
			h, err = decodeBlock(d, next, size, &o)
			if got := decoded(h); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: then %q, %v", name, got, err)
			}
			if _, err := decodeBlock(d, []byte{0x80 | byte(staticLast+1+len(want))}, size, &o); err == nil {
				t.Errorf("%s: the table holds more", name)
			}
		}
	}
}

func TestDecoderRefuses(t *testing.T) {
	o := (&Options{}).resolve()
	for name, block := range map[string][]byte{
		"index 0":                  {0x80},
		"index of nothing":         {0x80 | staticLast + 1},
		"name of nothing":          {0x40 | staticLast + 1, 0},
		"half an integer":          {0xff},
		"endless integer":          {0xff, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00},
		"large integer":            {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
		"half a name":              {0x40, 5, 'a'},
		"no value":                 {0x40, 1, 'a'},
		"half a value":             {0x40, 1, 'a', 2, 'b'},
		"half of a large value":    {0x40, 1, 'a', 0x7f, 0x80, 0x80, 0x20, 'b'},
		"name of a large value":    {0x40, 0x7f, 0x80, 0x80, 0x20},
		"size behind a field":      {0x82, 0x20},
		"size too large":           {0x3f, 0xe2, 0x1f},
		"padding that is no ones":  {0x40, 1, 'a', 0x81, 0x1e},
		"padding that is too long": {0x40, 1, 'a', 0x82, 0x1f, 0xff},
	} {
		for _, size := range []int{1, 100} {
			if _, err := decodeBlock(newDecoder(&o), block, size, &o); err != errCoding && err != errLate {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// FuzzDecoder compares the decoder with x/net's, over two blocks on one table: a
// field that one finds the other must find. Only we insist on where the size of
// the table is changed.
func FuzzDecoder(f *testing.F) {
	f.Add(newPeerBlock(get1("a", "b", "cookie", "c")...), []byte{0x80 | staticLast + 1}, 3)
	f.Add([]byte{0x3f, 0x50, 0x40, 1, 'a', 0x81, 0x1f}, []byte{0xbe, 0x7e, 1, 'c'}, 1)
	f.Add([]byte{0x20, 0x0f, 0x10, 2, 'a', 'b'}, []byte{0x3f, 0xe1, 0x1f}, 2)
	f.Fuzz(func(t *testing.T, one, two []byte, size int) {
		o := (&Options{MaxHeaders: 1 << 20, MaxHeaderBytes: 1 << 30}).resolve()
		d := newDecoder(&o)
		var theirs []string
		x := hpack.NewDecoder(tableBytes, func(f hpack.HeaderField) {
			if all([]byte(f.Name), className) && f.Name != "" && f.Name != "cookie" && message.Intern([]byte(f.Name)) != message.TE &&
				!connectionSpecific[message.Intern([]byte(f.Name))] && validValue([]byte(f.Value)) {
				theirs = append(theirs, f.Name+"="+f.Value)
			}
		})
		for _, block := range [][]byte{one, two} {
			theirs = nil
			h, err := decodeBlock(d, block, max(size, 1), &o)
			_, theirErr := x.Write(block)
			if theirErr == nil {
				theirErr = x.Close()
			}
			if err != nil {
				if theirErr == nil && err != errLate {
					t.Fatalf("%x: we refuse what they take", block)
				}
				return
			}
			if theirErr != nil {
				t.Fatalf("%x: they say %v", block, theirErr)
			}
			var ours []string
			for _, f := range h.fields.All() {
				if f.ID != message.Cookie && f.ID != message.TE {
					ours = append(ours, fmt.Sprintf("%s=%s", f.Name, f.Value))
				}
			}
			if !slices.Equal(ours, theirs) {
				t.Fatalf("%x: got %q, they say %q", block, ours, theirs)
			}
		}
	})
}

func BenchmarkDecodeHead(b *testing.B) {
	o := (&Options{}).resolve()
	d := newDecoder(&o)
	pairs := get1("user-agent", "bench", "content-type", "application/grpc", "te", "trailers", "x-request-id", "0123456789abcdef")
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for range 2 {
		block.Reset()
		for i := 0; i < len(pairs); i += 2 {
			_ = e.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
		}
		if _, err := decodeBlock(d, block.Bytes(), 1<<20, &o); err != nil {
			b.Fatal(err)
		}
	}
	for name, block := range map[string][]byte{"indexed": block.Bytes(), "literal": appendPlain(appendPlain([]byte{0x00}, []byte("x-request-id")), []byte("0123456789abcdef"))} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				h := getHead()
				d.begin()
				if err := d.write(h, block, true, &o); err != nil {
					b.Fatal(err)
				}
				putHead(h)
			}
		})
	}
}
