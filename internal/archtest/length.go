package archtest

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// Lengths are the numbers at which a file has become more than one idea.
type Lengths struct {
	File      int // lines of a hand-written file
	Test      int // lines of a test file
	RootFiles int // non-test files of the root package
}

// House are the lengths of this module.
var House = Lengths{File: 600, Test: 800, RootFiles: 26}

// CheckLengths counts the Go files under root, those of nested modules included, and reports what is over l.
// Generated files (*_gen.go, *_gen_test.go, *.pb.go) are as long as they are.
func CheckLengths(l Lengths, root fs.FS) ([]Fault, error) {
	var faults []Fault
	inRoot := 0
	err := walkGo(root, true, func(file string, text []byte) error {
		if generated(file) {
			return nil
		}
		limit, test := l.File, strings.HasSuffix(file, "_test.go")
		if test {
			limit = l.Test
		}
		if n := bytes.Count(text, []byte("\n")); n > limit {
			faults = append(faults, Fault{file, fmt.Sprintf("has %d lines, more than %d: split it by idea", n, limit)})
		}
		if !test && path.Dir(file) == "." {
			inRoot++
		}
		return nil
	})
	if inRoot > l.RootFiles {
		faults = append(faults, Fault{".", fmt.Sprintf("has %d non-test files, more than %d", inRoot, l.RootFiles)})
	}
	return faults, err
}

func generated(file string) bool {
	return strings.HasSuffix(file, "_gen.go") || strings.HasSuffix(file, "_gen_test.go") || strings.HasSuffix(file, ".pb.go")
}
