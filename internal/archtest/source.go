package archtest

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// impureImports lead out of a pure package: to the disk, the network, a log, a lock, a source of chance.
var impureImports = []string{
	"crypto/rand", "log", "math/rand", "net", "os", "sync", "syscall",
}

// impureTime are those functions of package time that read a clock or wait for one. (LoadLocation reads a disk
// as well, but zone data is input that a schedule's author names; State is given times, never zones.)
var impureTime = []string{
	"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until",
}

// A Source is one Go file: where it is, and its syntax.
type Source struct {
	Rel  string // the package it belongs to, relative to the module
	File string // the file's path, relative to the module
	Test bool   // a _test.go file
	AST  *ast.File
}

// ReadSources parses every Go file under root, including those that this platform's build leaves out, and leaves
// out what the go command does not see: testdata, hidden folders, nested modules.
func ReadSources(root fs.FS) (*token.FileSet, []Source, error) {
	fset := token.NewFileSet()
	var sources []Source
	err := walkGo(root, false, func(file string, text []byte) error {
		tree, err := parser.ParseFile(fset, file, text, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("archtest: %w", err)
		}
		sources = append(sources, Source{path.Dir(file), file, strings.HasSuffix(file, "_test.go"), tree})
		return nil
	})
	return fset, sources, err
}

// CheckPure reports what a pure package must not do: import a way out, ask the time, start a goroutine. Test files
// may do all of it.
func CheckPure(t Table, fset *token.FileSet, sources []Source) []Fault {
	var faults []Fault
	for _, src := range sources {
		row, ok := t.row(src.Rel)
		if !ok || !row.Pure || src.Test || src.AST.Name.Name == "main" {
			continue
		}
		say := func(pos token.Pos, what string) {
			faults = append(faults, Fault{fset.Position(pos).String(), "a pure package " + what})
		}
		timeName := checkPureImports(src, row.But, say)
		ast.Inspect(src.AST, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				say(n.Pos(), "starts no goroutine")
			case *ast.SelectorExpr:
				id, ok := n.X.(*ast.Ident)
				if ok && id.Name == timeName && slices.Contains(impureTime, n.Sel.Name) {
					say(n.Pos(), "takes the time as an argument: no time."+n.Sel.Name)
				}
			}
			return true
		})
	}
	return faults
}

// checkPureImports reports the imports that lead out, and returns the name under which the file knows package
// time, "" if it does not.
func checkPureImports(src Source, but []string, say func(token.Pos, string)) (timeName string) {
	for _, spec := range src.AST.Imports {
		imp, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the parser has accepted it; there is no such import
		}
		for _, no := range impureImports {
			if within(imp, no) && !slices.Contains(but, imp) {
				say(spec.Pos(), "does not import "+imp)
			}
		}
		switch {
		case imp != "time":
		case spec.Name == nil:
			timeName = "time"
		case spec.Name.Name == ".":
			say(spec.Pos(), "does not hide package time behind a dot import")
		default:
			timeName = spec.Name.Name
		}
	}
	return timeName
}

// ForeignImports adds to each package the imports of those of its non-test files that this platform's build
// leaves out, so that the checks see the imports of every platform.
func ForeignImports(t Table, pkgs []Package, sources []Source) []Package {
	out := slices.Clone(pkgs)
	for i, p := range out {
		rel, ours := t.rel(p.ImportPath)
		if !ours {
			continue
		}
		imports := slices.Clone(p.Imports)
		for _, src := range sources {
			ignored := src.Rel == rel && slices.Contains(p.IgnoredGoFiles, path.Base(src.File))
			if !ignored || src.Test || src.AST.Name.Name != p.Name {
				continue
			}
			for _, spec := range src.AST.Imports {
				if imp, err := strconv.Unquote(spec.Path.Value); err == nil && !slices.Contains(imports, imp) {
					imports = append(imports, imp)
				}
			}
		}
		out[i].Imports = imports
	}
	return out
}

// walkGo calls visit with the Go files under root in lexical order. It skips testdata and hidden folders, and
// nested modules unless it is told to enter them.
func walkGo(root fs.FS, nested bool, visit func(file string, text []byte) error) error {
	return fs.WalkDir(root, ".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return enter(root, file, nested)
		case path.Ext(file) != ".go" || strings.HasPrefix(path.Base(file), "."):
			return nil
		}
		text, err := fs.ReadFile(root, file)
		if err != nil {
			return err
		}
		return visit(file, text)
	})
}

// enter returns fs.SkipDir for a folder that walkGo leaves out.
func enter(root fs.FS, dir string, nested bool) error {
	base := path.Base(dir)
	if dir == "." {
		return nil
	}
	if base == "testdata" || base == "vendor" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return fs.SkipDir
	}
	if nested {
		return nil
	}
	switch _, err := fs.Stat(root, path.Join(dir, "go.mod")); {
	case err == nil:
		return fs.SkipDir
	case errors.Is(err, fs.ErrNotExist):
		return nil
	default:
		return err
	}
}
