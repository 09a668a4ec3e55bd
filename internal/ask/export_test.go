package ask

// MaxAskers is how many questions of triggers that are elsewhere are asked at a time.
const MaxAskers = maxAskers

// Calls returns how many calls are being made, or have an answer that nobody has taken.
func (a *Asker) Calls() int {
	a.calls.mu.Lock()
	defer a.calls.mu.Unlock()
	return len(a.calls.running)
}
