package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"
)

// Drained is an endpoint that is drained by hand, as it is stored.
type Drained struct {
	Cluster  string    `json:"cluster"`
	Endpoint string    `json:"endpoint"` // its address
	Writer   string    `json:"writer"`   // who asked
	Reason   string    `json:"reason"`
	Since    time.Time `json:"since"`
}

// readDrained takes the list from its file. Without it nothing is drained; if it
// is corrupt, that is said, and nothing is drained either.
func (s *Store) readDrained() error {
	data, err := s.disk.Read(drainedName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, body, err := parseRecord(data)
	if err == nil {
		err = json.Unmarshal(body, &s.drained)
	}
	if err != nil {
		s.drained = nil
		s.faults = append(s.faults, StoreFault{drainedName, err})
	}
	return nil
}

// Drained returns what is drained by hand.
func (s *Store) Drained() []Drained {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.drained)
}

// SetDrained makes the list of what is drained by hand durable.
func (s *Store) SetDrained(list []Drained) error {
	body, err := json.Marshal(list)
	if err != nil {
		return err
	}
	record, err := appendRecord(nil, Meta{Applied: time.Now().UTC()}, body)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.replace(drainedName, ".", record); err != nil {
		return fmt.Errorf("store what is drained: %w", err)
	}
	s.drained = slices.Clone(list)
	return nil
}
