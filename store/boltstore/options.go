package boltstore

// Options of a store. The zero value is a good choice. They are this node's own
// and may differ between nodes.
type Options struct {
	// JournalBytes bounds the journal on disk; its oldest rows are dropped first.
	// Default: 64 MiB.
	JournalBytes int64
}

func (o Options) withDefaults() Options {
	if o.JournalBytes <= 0 {
		o.JournalBytes = 64 << 20
	}
	return o
}
