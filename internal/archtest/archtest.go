// Package archtest knows which package may import which, and how long a file may grow: it holds the module's
// architecture as a table, and its tests compare the tree with that table.
//
// The checks are plain functions from data to [Fault]s, so that tests can show them failing on made-up packages.
package archtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// A Package is what the checks need of one package as `go list -json` prints it.
type Package struct {
	ImportPath     string   // as the go command names it
	Name           string   // the name in the package clause
	IgnoredGoFiles []string // files of other platforms and build tags, tests included; base names
	Imports        []string // what the non-test files of this platform import
	Deps           []string // everything linked with it, transitively
	Error          *ListError
}

// A ListError is why the go command could not load a package.
type ListError struct{ Err string }

// ReadPackages decodes the output of `go list -json`.
func ReadPackages(r io.Reader) ([]Package, error) {
	var pkgs []Package
	for dec := json.NewDecoder(r); ; {
		var p Package
		switch err := dec.Decode(&p); {
		case errors.Is(err, io.EOF):
			return pkgs, nil
		case err != nil:
			return nil, fmt.Errorf("archtest: read package list: %w", err)
		}
		pkgs = append(pkgs, p)
	}
}

// A Fault is one breach of a rule. Where is an import path or a file name; What says what is wrong with it, and
// what to do when that is not plain.
type Fault struct{ Where, What string }

func (f Fault) String() string { return f.Where + ": " + f.What }

// CheckArrows reports the packages without a row in t, and the imports among the module's own packages that the
// row of the importer does not list. Test files are not looked at: a test may import what it likes.
func CheckArrows(t Table, pkgs []Package) []Fault {
	var faults []Fault
	for _, p := range pkgs {
		from, ours := t.rel(p.ImportPath)
		if !ours {
			continue
		}
		if p.Error != nil {
			faults = append(faults, Fault{p.ImportPath, "does not load: " + p.Error.Err})
			continue
		}
		row, ok := t.row(from)
		if !ok {
			faults = append(faults, Fault{p.ImportPath, "has no row in the import table of internal/archtest"})
			continue
		}
		for _, imp := range p.Imports {
			to, ours := t.rel(imp)
			if ours && !matchAny(row.May, to) && (row.Pure || !matchAny(t.Everyone, to)) {
				faults = append(faults, Fault{p.ImportPath, fmt.Sprintf("may not import %s", imp)})
			}
		}
	}
	return faults
}

// CheckHomes reports imports of a module that has a home from outside that home.
func CheckHomes(t Table, pkgs []Package) []Fault {
	var faults []Fault
	for _, p := range pkgs {
		from, ours := t.rel(p.ImportPath)
		if !ours {
			continue
		}
		for _, imp := range p.Imports {
			for _, h := range t.Homes {
				if within(imp, h.Module) && !matchAny(h.In, from) {
					faults = append(faults, Fault{p.ImportPath, fmt.Sprintf("may not import %s: %s", imp, h.Why)})
				}
			}
		}
	}
	return faults
}

// CheckLinks reports what the root package links, directly or not, although it must not.
func CheckLinks(t Table, pkgs []Package) []Fault {
	var faults []Fault
	for _, p := range pkgs {
		if p.ImportPath != t.Module {
			continue
		}
		for _, dep := range p.Deps {
			for _, no := range t.RootNeverLinks {
				path := no
				if rel, ok := strings.CutPrefix(no, "./"); ok {
					path = t.Module + "/" + rel
				}
				if within(dep, path) {
					faults = append(faults, Fault{p.ImportPath, "must not link " + dep})
				}
			}
		}
	}
	return faults
}

// within reports whether path is module or lies below it. The version suffix of a module counts as below it, and
// so does a sibling that continues its name with a dash: raft-boltdb belongs with raft.
func within(path, module string) bool {
	rest, ok := strings.CutPrefix(path, module)
	return ok && (rest == "" || rest[0] == '/' || rest[0] == '-')
}
