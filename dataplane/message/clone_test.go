package message

import (
	"bytes"
	"reflect"
	"testing"
)

// A clone is equal to what it was made of, and shares no byte with it.
func TestCloneOwnsItsBytes(t *testing.T) {
	buffer := []byte("GET/path?qhost:80namevalueh2c")
	var r Request
	r.Method, r.MethodName, r.Form, r.Major, r.Minor, r.HasQuery = MethodGet, buffer[:3], FormOrigin, 1, 1, true
	r.Target, r.Path, r.Query = buffer[3:10], buffer[3:8], buffer[9:10]
	r.Authority, r.Host, r.Upgrade = buffer[10:17], buffer[10:14], buffer[26:29]
	r.Body = Body{Kind: BodyLength, Length: 3}
	r.Fields.Add(buffer[17:21], buffer[21:26])
	r.Fields.AddID(Accept, Accept.Bytes(), nil)

	want := r.Clone()
	clone := r.Clone()
	if !reflect.DeepEqual(clone, want) || !reflect.DeepEqual(r.Clone(), clone) {
		t.Fatalf("%+v, want %+v", clone, want)
	}
	for _, pair := range [][2][]byte{{clone.MethodName, r.MethodName}, {clone.Target, r.Target}, {clone.Path, r.Path}, {clone.Query, r.Query}, {clone.Host, r.Host}} {
		if !bytes.Equal(pair[0], pair[1]) {
			t.Errorf("%q, want %q", pair[0], pair[1])
		}
	}
	for i := range buffer {
		buffer[i] = 'x'
	}
	r.Fields.Reset()
	if !reflect.DeepEqual(clone, want) || string(clone.Fields.All()[0].Value) != "value" || !clone.Fields.Has(Accept) {
		t.Errorf("changed with what it was made of: %+v", clone)
	}
}
