//go:build !linux

package boltstore

import "go.etcd.io/bbolt"

// letGo does nothing: there is no portable way to ask for it.
func letGo(*bbolt.Tx) {}
