// Package e2e holds promises that only whole programs can show: the data plane
// as it is built, in front of backends that are processes of their own and die,
// freeze, dawdle and hang up under load. nginx is put through the same.
package e2e

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if address := os.Getenv(backendVariable); address != "" {
		os.Exit(runBackend(address))
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(programDir)
		os.Exit(code)
	}))
}
