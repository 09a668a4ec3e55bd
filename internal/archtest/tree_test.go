package archtest_test

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/escapement-go/scheduler/internal/archtest"
)

// moduleRoot is where this package's tests run, seen from the module's root.
const moduleRoot = "../.."

// listPackages asks the go command for the module's packages. The tests that call it read the sources as well: the
// go command looks at the files that a test opens, not at those its children open, when it decides whether an old
// result still holds.
func listPackages(t *testing.T, sources []archtest.Source) []archtest.Package {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e",
		"-json=ImportPath,Name,IgnoredGoFiles,Imports,Deps,Error", "./...")
	cmd.Dir = moduleRoot
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	pkgs, err := archtest.ReadPackages(bytes.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	if len(pkgs) == 0 {
		t.Fatal("go list names no package")
	}
	return archtest.ForeignImports(archtest.Escapement, pkgs, sources)
}

func tree(t *testing.T) fs.FS {
	t.Helper()
	root, err := filepath.Abs(moduleRoot)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Fatal(err)
	}
	return os.DirFS(root)
}

func report(t *testing.T, faults []archtest.Fault) {
	t.Helper()
	for _, f := range faults {
		t.Error(f)
	}
}

func TestTree_imports_follow_the_table(t *testing.T) {
	fset, sources, err := archtest.ReadSources(tree(t))
	if err != nil {
		t.Fatal(err)
	}
	pkgs := listPackages(t, sources)
	report(t, archtest.CheckArrows(archtest.Escapement, pkgs))
	report(t, archtest.CheckHomes(archtest.Escapement, pkgs))
	report(t, archtest.CheckLinks(archtest.Escapement, pkgs))
	report(t, archtest.CheckPure(archtest.Escapement, fset, sources))
}

func TestTree_files_are_of_readable_length(t *testing.T) {
	faults, err := archtest.CheckLengths(archtest.House, tree(t))
	if err != nil {
		t.Fatal(err)
	}
	report(t, faults)
}
