package main

import (
	"errors"

	"github.com/headgate/headgate/dataplane/control"
)

// authenticate turns the flags into who may use the control API.
func (f *flags) authenticate() (err error) {
	auth := &f.options.Auth
	if f.token != "" {
		if auth.Token, err = control.ReadToken(f.token); err != nil {
			return err
		}
	}
	if f.cert == "" && f.key == "" {
		if f.clientCA != "" {
			return errors.New("--control-client-ca needs --control-cert and --control-key")
		}
		return nil
	}
	auth.TLS, err = control.ReadTLS(f.cert, f.key, f.clientCA)
	return err
}
