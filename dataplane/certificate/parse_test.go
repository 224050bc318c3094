package certificate

import (
	"encoding/pem"
	"errors"
	"strings"
	"testing"

	"github.com/headgate/headgate/dataplane/certificate/testca"
)

func TestParsePair(t *testing.T) {
	ca := testca.New(t, "authority")
	a, b := ca.Issue([]string{"a.example"}), ca.Issue([]string{"b.example"})
	broken := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("nonsense")}))
	locked := string(pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("nonsense")}))
	for _, test := range []struct {
		name, chain, key string
		part             int // -1: no fault
		says             string
	}{
		{"good", a.Cert, a.Key, -1, ""},
		{"chain", a.Cert + ca.PEM, a.Key, -1, ""},
		{"text between", "# mine\n" + a.Cert, "# secret\n" + a.Key, -1, ""},
		{"both in one", a.Key + a.Cert, a.Key + a.Cert, -1, ""},
		{"no certificate", "none", a.Key, 0, "holds no certificate in PEM"},
		{"key for a certificate", a.Key, a.Key, 0, "holds no certificate in PEM"},
		{"no key", a.Cert, "none", 1, "holds no private key in PEM"},
		{"other key", a.Cert, b.Key, 1, "private key does not match public key"},
		{"broken certificate", broken, a.Key, 0, "certificate 1 in it: malformed certificate"},
		{"broken second", a.Cert + broken, a.Key, 0, "certificate 2 in it: malformed certificate"},
		{"locked key", a.Cert, locked, 1, "holds an encrypted key"},
	} {
		_, err := ParsePair([]byte(test.chain), []byte(test.key))
		var part *PartError
		switch {
		case test.part < 0 && err != nil:
			t.Errorf("%s: %v", test.name, err)
		case test.part >= 0 && (!errors.As(err, &part) || part.Part != test.part || !strings.Contains(err.Error(), test.says)):
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

func TestParseRoots(t *testing.T) {
	one, two := testca.New(t, "one"), testca.New(t, "two")
	a, err := ParseRoots([]byte(one.PEM + two.PEM))
	if err != nil {
		t.Fatal(err)
	}
	b, err := ParseRoots([]byte("comment\n" + one.PEM + two.PEM))
	if err != nil || a.Digest != b.Digest || !a.Pool.Equal(b.Pool) {
		t.Errorf("comments count: %v", err)
	}
	c, err := ParseRoots([]byte(one.PEM))
	if err != nil || a.Digest == c.Digest {
		t.Errorf("fewer roots, same digest: %v", err)
	}
	if !a.Expires.Equal(one.Cert.NotAfter) && !a.Expires.Equal(two.Cert.NotAfter) {
		t.Errorf("expires %v", a.Expires)
	}
	if _, err := ParseRoots(nil); err == nil {
		t.Error("nothing is a bundle")
	}
}

func FuzzParsePair(f *testing.F) {
	ca := testca.New(f, "authority")
	p := ca.Issue([]string{"a.example"})
	f.Add(p.Cert, p.Key)
	f.Add(p.Key, p.Cert)
	f.Add("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n", "")
	f.Fuzz(func(t *testing.T, chain, key string) {
		pair, err := ParsePair([]byte(chain), []byte(key))
		if (pair == nil) != (err != nil) || pair != nil && pair.Leaf == nil {
			t.Fatalf("%v, %v", pair, err)
		}
		_, _ = ParseRoots([]byte(chain))
	})
}
