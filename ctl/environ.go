package ctl

import (
	"slices"
	"strings"
)

// environ is the environment in the form of os.Environ.
type environ []string

// get is the value of a variable, or "" if it is not set. The last setting
// wins, as it does in os/exec.
func (e environ) get(name string) string {
	for _, v := range slices.Backward(e) {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}
