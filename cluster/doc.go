// Package cluster knows who agrees: it turns commands into entries of a Raft log
// and entries into the state, on one node or on several.
//
// A [Node] gathers commands into entries (group commit), applies what is
// committed to a [store.State], writes the state behind to a [Storage], and
// follows leadership. Of the application's packages it alone knows that there is
// Raft, and it trusts Raft's library as little as the disk: see DESIGN.md beside
// this file.
//
// # Shutting down
//
// [Node.Shutdown] refuses new calls, ends leading, waits for the entries in
// flight, shuts raft down, closes the log, writes what Storage lacks, and closes
// Storage. It may be called again, and nil means that nothing was lost.
package cluster
