// Package boltfile looks at a bbolt file before bbolt does.
//
// bbolt trusts its file: a damaged page makes it panic, on a goroutine of its own
// when it opens, or read outside its map, which no recover can catch. So whoever
// opens a file first takes its lock ([Lock]) and walks its whole page tree
// ([Check]); then bbolt is only ever given a file that it can read.
package boltfile
