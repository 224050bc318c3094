package snapshot

import (
	"strings"
	"time"

	configv1 "github.com/headgate/headgate/gen/headgate/config/v1"
)

// What a field that is left out means.
const (
	DefaultAffinityCookie   = "hg"
	DefaultCircuitFailures  = 5
	DefaultOpenFor          = 30 * time.Second
	DefaultHalfOpenRequests = 1
)

// compileBalancing reads how an endpoint is picked.
func compileBalancing(in *configv1.LoadBalancing) Balancing {
	switch policy := in.GetPolicy().(type) {
	case *configv1.LoadBalancing_Random:
		return Balancing{Policy: Random}
	case *configv1.LoadBalancing_PeakEwma:
		return Balancing{Policy: PeakEWMA}
	case *configv1.LoadBalancing_LeastRequest:
		return Balancing{Policy: LeastRequest, Choices: int(policy.LeastRequest.GetChoices())}
	case *configv1.LoadBalancing_ConsistentHash:
		return Balancing{Policy: ConsistentHash, Key: compileHashKey(policy.ConsistentHash)}
	}
	return Balancing{Policy: RoundRobin}
}

func compileHashKey(in *configv1.ConsistentHash) HashKey {
	switch in.GetKey().(type) {
	case *configv1.ConsistentHash_Header:
		return HashKey{Source: HashHeader, Name: strings.ToLower(in.GetHeader())}
	case *configv1.ConsistentHash_Cookie:
		return HashKey{Source: HashCookie, Name: in.GetCookie()}
	case *configv1.ConsistentHash_QueryParam:
		return HashKey{Source: HashQueryParam, Name: in.GetQueryParam()}
	case *configv1.ConsistentHash_ClientAddress:
		return HashKey{Source: HashClientAddress}
	case *configv1.ConsistentHash_Path:
		return HashKey{Source: HashPath}
	}
	return HashKey{}
}

// compileAffinity is off by default.
func compileAffinity(in *configv1.SessionAffinity, f *faults) *Affinity {
	cookie := in.GetCookie()
	if cookie == nil {
		return nil
	}
	return &Affinity{
		Cookie: orString(cookie.GetName(), DefaultAffinityCookie),
		TTL:    duration(cookie.GetTtl(), 0, "sessionAffinity.cookie.ttl", f),
	}
}

// compileCircuitBreaker is off by default.
func compileCircuitBreaker(in *configv1.CircuitBreaker, f *faults) *CircuitBreaker {
	if in == nil {
		return nil
	}
	return &CircuitBreaker{
		ConsecutiveFailures: number(in.ConsecutiveFailures, DefaultCircuitFailures),
		OpenFor:             duration(in.GetOpenFor(), DefaultOpenFor, "circuitBreaker.openFor", f),
		HalfOpenRequests:    number(in.HalfOpenRequests, DefaultHalfOpenRequests),
	}
}
