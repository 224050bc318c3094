package acme

import (
	"context"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"

	"github.com/mholt/acmez/v3"
	protocol "github.com/mholt/acmez/v3/acme"
)

// storedAccount is an account as it is kept: its key is a secret.
type storedAccount struct {
	Directory string           `json:"directory"`
	Account   protocol.Account `json:"account"`
	Key       string           `json:"key"` // PEM
}

// accountName is the name of an account in the storage: there is one for each
// authority and contact.
func accountName(o *Order) string {
	return "account-" + digest(o.Directory, o.Email) + ".json"
}

// digest is a name for a list of words. It depends on where each ends.
func digest(words ...string) string {
	sum := sha256.New()
	for _, w := range words {
		fmt.Fprintf(sum, "%d %s", len(w), w)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// account is the one that is kept, or a new one. Several orders that begin at
// once share it.
func (c *Client) account(ctx context.Context, client *acmez.Client, o *Order) (protocol.Account, error) {
	select {
	case c.registers <- struct{}{}:
		defer func() { <-c.registers }()
	case <-ctx.Done():
		return protocol.Account{}, ctx.Err()
	}
	account, err := c.storage.account(accountName(o))
	if !errors.Is(err, fs.ErrNotExist) {
		return account, err
	}
	return c.register(ctx, client, o)
}

// register makes an account and keeps it. The terms of service are agreed to:
// whoever names an authority in a configuration has read them.
func (c *Client) register(ctx context.Context, client *acmez.Client, o *Order) (protocol.Account, error) {
	secret, key, err := newKey()
	if err != nil {
		return protocol.Account{}, err
	}
	wanted := protocol.Account{TermsOfServiceAgreed: true, PrivateKey: secret}
	if o.Email != "" {
		wanted.Contact = []string{"mailto:" + o.Email}
	}
	account, err := client.NewAccount(ctx, wanted)
	if err != nil {
		return account, fmt.Errorf("account: %w", err)
	}
	text, err := json.Marshal(storedAccount{Directory: o.Directory, Account: account, Key: string(key)})
	if err != nil {
		return account, err
	}
	return account, c.storage.Save(accountName(o), text)
}

// account reads an account; fs.ErrNotExist if there is none.
func (s *Storage) account(name string) (protocol.Account, error) {
	text, err := s.Load(name)
	if err != nil {
		return protocol.Account{}, err
	}
	var stored storedAccount
	if err := json.Unmarshal(text, &stored); err != nil {
		return protocol.Account{}, fmt.Errorf("%s: %w", name, err)
	}
	block, _ := pem.Decode([]byte(stored.Key))
	if block == nil {
		return protocol.Account{}, fmt.Errorf("%s: holds no key in PEM", name)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return protocol.Account{}, fmt.Errorf("%s: %w", name, err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return protocol.Account{}, fmt.Errorf("%s: the key cannot sign", name)
	}
	stored.Account.PrivateKey = signer
	return stored.Account, nil
}
