package examples_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// Every manifest here can be applied, whatever else is tested of it, and what
// comes back out is the same.
func TestEveryManifestApplies(t *testing.T) {
	s := newSite(t, ".")
	s.start("dataplane")
	found := 0
	err := fs.WalkDir(os.DirFS("."), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() == "node_modules" || d.Name() == "gen" {
			return fs.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != ".yaml" || d.Name() == "buf.gen.yaml" {
			return err
		}
		found++
		s.move(path)
		s.must("ctl validate examples/" + path)
		s.must("ctl apply --allow-shrink examples/" + path)
		s.must("ctl diff examples/" + path)
		s.must("ctl get snapshot -o yaml > again.yaml && ctl diff again.yaml")
		return nil
	})
	if err != nil || found < 5 {
		t.Errorf("%d manifests, %v", found, err)
	}
}
