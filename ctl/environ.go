package ctl

import "strings"

// environ is the environment in the form of os.Environ.
type environ []string

// get is the value of a variable, or "" if it is not set. The last setting
// wins, as it does in os/exec.
func (e environ) get(name string) string {
	for i := len(e) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(e[i], name+"="); ok {
			return value
		}
	}
	return ""
}
