//go:build !darwin && !dragonfly && !freebsd && !linux && !netbsd && !openbsd

package boltstore

func noRoom(error) bool { return false }
