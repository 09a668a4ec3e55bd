//go:build nextformat

package store

// FormatLevel of a build with the tag nextformat, which writes nothing new: tests
// roll a cluster from one level to the next with it.
const FormatLevel = 2
