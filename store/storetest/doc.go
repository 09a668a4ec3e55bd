// Package storetest has what tests of states and their backends share: a
// conformance suite that every backend passes, and a generator of commands.
package storetest
