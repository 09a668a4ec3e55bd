//go:build !nextformat

package store

// FormatLevel is the newest format this build can read and write. A cluster's
// replicated level is the lowest of its members'; nothing above it is written. A
// batch above a build's FormatLevel, or a command it does not know, is an error
// that stops the node: skipping it would be divergence.
const FormatLevel = 1
