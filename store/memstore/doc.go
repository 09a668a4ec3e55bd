// Package memstore keeps a state of package store in memory, for as long as the
// process lives: the twin of boltstore without the disk. What it keeps of the
// past is bounded by count, not by retention alone.
package memstore
