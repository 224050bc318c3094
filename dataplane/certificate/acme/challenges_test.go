package acme

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"testing"

	protocol "github.com/mholt/acmez/v3/acme"
)

// A challenge is answered from its presentation to its end, in its own way.
func TestChallenges(t *testing.T) {
	var c Challenges
	hello := func(name string, protocols ...string) *tls.ClientHelloInfo {
		return &tls.ClientHelloInfo{ServerName: name, SupportedProtos: protocols}
	}
	ch := protocol.Challenge{
		Token: "token", KeyAuthorization: "token.thumbprint", Identifier: protocol.Identifier{Type: "dns", Value: "A.example"},
	}
	path, over := []byte(PathPrefix+"token"), hello("a.Example", Protocol)
	if c.Answer(path) != nil || c.Certificate(over) != nil {
		t.Error("answered before it is asked")
	}
	if err := errors.Join(httpSolver{&c}.Present(t.Context(), ch), alpnSolver{&c}.Present(t.Context(), ch)); err != nil {
		t.Fatal(err)
	}
	if got := string(c.Answer(path)); got != "token.thumbprint" {
		t.Errorf("answered %q", got)
	}
	if pair := c.Certificate(over); pair == nil || !strings.EqualFold(pair.Leaf.DNSNames[0], "a.example") {
		t.Errorf("answered %v", pair)
	}
	for _, other := range []string{"/", PathPrefix, PathPrefix + "token/", PathPrefix + "other", "/x" + PathPrefix + "token"} {
		if c.Answer([]byte(other)) != nil {
			t.Errorf("%s is answered", other)
		}
	}
	for _, other := range []*tls.ClientHelloInfo{hello("b.example", Protocol), hello("a.example", "h2"), hello("a.example", Protocol, "h2"), hello("a.example")} {
		if c.Certificate(other) != nil {
			t.Errorf("%s with %q is answered", other.ServerName, other.SupportedProtos)
		}
	}
	if err := errors.Join(httpSolver{&c}.CleanUp(t.Context(), ch), alpnSolver{&c}.CleanUp(t.Context(), ch)); err != nil {
		t.Fatal(err)
	}
	if c.Answer(path) != nil || c.Certificate(over) != nil {
		t.Error("answered after the end")
	}
}

func TestChallengesBounded(t *testing.T) {
	var c Challenges
	for i := range maxChallenges {
		if err := (httpSolver{&c}).Present(t.Context(), protocol.Challenge{Token: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := (httpSolver{&c}).Present(t.Context(), protocol.Challenge{Token: "more"}); !errors.Is(err, errChallenges) {
		t.Errorf("one more: %v", err)
	}
}

// While nobody is asked, no request pays for it.
func TestAnswerAllocs(t *testing.T) {
	var c Challenges
	path := []byte("/users")
	if n := testing.AllocsPerRun(100, func() { c.Answer(path) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// An authority's refusal is said in its own words, as far as they are bounded.
func TestExplain(t *testing.T) {
	err := explain(fmt.Errorf("solving: %w", protocol.Problem{
		Type: protocol.ProblemTypeNamespace + "unauthorized", Detail: "not found",
		Resource: protocol.Authorization{Identifier: protocol.Identifier{Type: "dns", Value: "a.example"}},
	}))
	if got := err.Error(); got != "a.example: unauthorized: not found" {
		t.Errorf("%q", got)
	}
	if n := len(explain(protocol.Problem{Detail: strings.Repeat("x", 1000)}).Error()); n > maxReason+3 {
		t.Errorf("%d bytes", n)
	}
}
