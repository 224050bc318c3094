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

type pairText struct{ name, value string }

var fieldPairs = rapid.Custom(func(t *rapid.T) pairText {
	name := rapid.SampledFrom([]string{"X-A", "x-b", "Content-Type", "date", "ETag", "x-very-long-name-of-a-field", "Authorization", "vary", "Accept"}).Draw(t, "name")
	value := rapid.SampledFrom([]string{"", "1", "2", "text/plain", "a, b, c", strings.Repeat("v", 300), strings.Repeat("w", 1500), "ÿ\x80"}).Draw(t, "value")
	return pairText{name, value}
})

// What is encoded is decoded as the same, whatever the table holds and however
// its size changes; and our table is never larger than the peer allows.
func TestEncoderAgreesWithDecoder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := newEncoder()
		var got []pairText
		d := hpack.NewDecoder(tableBytes, func(f hpack.HeaderField) { got = append(got, pairText{f.Name, f.Value}) })
		for range rapid.IntRange(1, 30).Draw(t, "blocks") {
			for range rapid.IntRange(0, 2).Draw(t, "resizes") {
				size := rapid.SampledFrom([]uint32{0, 40, 100, 1000, 4096, 1 << 20}).Draw(t, "size")
				e.setMax(size)
				d.SetAllowedMaxDynamicTableSize(size)
			}
			pairs := rapid.SliceOfN(fieldPairs, 0, 12).Draw(t, "pairs")
			block := e.begin(nil)
			var want []pairText
			for _, p := range pairs {
				block = e.field(block, message.Intern([]byte(p.name)), []byte(p.name), []byte(p.value))
				want = append(want, pairText{strings.ToLower(p.name), p.value})
			}
			got = nil
			if _, err := d.Write(block); err != nil {
				t.Fatalf("%x: %v", block, err)
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("got %q, want %q", got, want)
			}
			if e.size > e.max || e.next-e.oldest > tableSlots {
				t.Fatalf("%d bytes in a table of %d, %d entries", e.size, e.max, e.next-e.oldest)
			}
		}
	})
}

// What repeats is one byte from the third time on; what does not displaces
// nothing, and credentials are never kept.
func TestEncoderLearns(t *testing.T) {
	e := newEncoder()
	encode := func(name, value string) []byte {
		return e.field(nil, message.Intern([]byte(name)), []byte(name), []byte(value))
	}
	for i := range 3 {
		if n := len(encode("x-app", "headgate")); (n == 1) != (i == 2) {
			t.Errorf("time %d: %d bytes", i, n)
		}
	}
	for i := range 1000 {
		encode("x-request", fmt.Sprint(i))
	}
	if n := len(encode("X-App", "headgate")); n != 1 {
		t.Errorf("after others: %d bytes", n)
	}
	for range 3 {
		if b := encode("Authorization", "secret"); b[0]&0xf0 != 0x10 || !bytes.Contains(b, []byte("secret")) {
			t.Errorf("credentials as %x", b)
		}
	}
}

func TestStaticTable(t *testing.T) {
	for name, index := range staticNames {
		d := hpack.NewDecoder(0, nil)
		list, err := d.DecodeFull([]byte{0x80 | index})
		if err != nil || list[0].Name != name {
			t.Errorf("%d is %v, not %s", index, list, name)
		}
	}
	e := newEncoder()
	for _, status := range staticStatuses {
		list, err := hpack.NewDecoder(0, nil).DecodeFull(e.status(nil, int(status)))
		if err != nil || list[0].Value != fmt.Sprint(status) {
			t.Errorf("%d is %v", status, list)
		}
	}
}

func BenchmarkEncodeHead(b *testing.B) {
	e := newEncoder()
	fields := &message.Fields{}
	for _, f := range [][2]string{{"content-type", "application/grpc"}, {"te", "trailers"}, {"user-agent", "bench"}, {"grpc-timeout", "1S"}, {"x-forwarded-for", "10.0.0.1"}} {
		fields.Add([]byte(f[0]), []byte(f[1]))
	}
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		out = e.fields(e.request(out[:0], &benchHead), fields, true)
	}
}

// A value that is new each time is written as it is, without a look at the table;
// one that has settled is found out about, and goes into the table.
func TestFickleValues(t *testing.T) {
	e := newEncoder()
	var got []string
	d := hpack.NewDecoder(tableBytes, func(f hpack.HeaderField) { got = append(got, f.Value) })
	send := func(value string) (size int) {
		got = got[:0]
		block := e.field(e.begin(nil), message.Traceparent, message.Traceparent.Bytes(), []byte(value))
		if _, err := d.Write(block); err != nil {
			t.Fatal(err)
		}
		if len(got) != 1 || got[0] != value {
			t.Fatalf("got %q, want %q", got, value)
		}
		return len(block)
	}
	for i := range 1000 {
		send(fmt.Sprint("new ", i))
	}
	if e.next != e.oldest {
		t.Errorf("%d entries for values that were never seen twice", e.next-e.oldest)
	}
	for range 40 {
		send("settled")
	}
	if n := send("settled"); n != 1 {
		t.Errorf("a value that was sent 41 times takes %d bytes, want 1", n)
	}
}
