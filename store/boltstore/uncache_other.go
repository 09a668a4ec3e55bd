//go:build !linux

package boltstore

// uncache does nothing: there is no portable way to ask for it.
func uncache(string) {}
