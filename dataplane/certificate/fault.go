package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
)

// Fault is what a TLS connection failed of, in the kinds of RFC 9209 section
// 2.3.
type Fault uint8

const (
	// NoFault: the error is not one of TLS.
	NoFault Fault = iota
	// BadCertificate: the peer's certificate was not accepted.
	BadCertificate
	// BadProtocol: the peer does not speak TLS, or no version, cipher or
	// protocol suits both.
	BadProtocol
	// Alert: the peer ended the connection with an alert that says why.
	Alert
)

var faultNames = [...]string{"none", "certificate", "protocol", "alert"}

func (f Fault) String() string {
	if int(f) < len(faultNames) {
		return faultNames[f]
	}
	return "invalid"
}

// FaultOf is what an error of a TLS connection means.
func FaultOf(err error) Fault {
	var (
		unverified *tls.CertificateVerificationError
		host       x509.HostnameError
		invalid    x509.CertificateInvalidError
		unknown    x509.UnknownAuthorityError
		record     tls.RecordHeaderError
		op         *net.OpError
	)
	switch {
	case errors.As(err, &unverified), errors.As(err, &host), errors.As(err, &invalid), errors.As(err, &unknown):
		return BadCertificate
	case errors.As(err, &op) && op.Op == "remote error":
		return Alert
	case errors.As(err, &op) && op.Op == "local error", errors.As(err, &record):
		return BadProtocol
	case err != nil && strings.HasPrefix(err.Error(), "tls: "):
		return BadProtocol // crypto/tls gives most of its errors no type
	}
	return NoFault
}

// maxReason bounds what is repeated of an error, in bytes: it may quote the peer.
const maxReason = 200

// Reason is an error of a TLS connection for people, without the names of
// packages.
func Reason(err error) string {
	text := err.Error()
	for _, noise := range [...]string{"remote error: ", "local error: ", "tls: ", "failed to verify certificate: ", "x509: "} {
		text = strings.TrimPrefix(text, noise)
	}
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "..."
	}
	return text
}

// bare is an error with the text that Reason gives it; nil stays nil.
func bare(err error) error {
	if err == nil {
		return nil
	}
	return &bareError{err}
}

type bareError struct{ err error }

func (e *bareError) Error() string { return Reason(e.err) }
func (e *bareError) Unwrap() error { return e.err }
