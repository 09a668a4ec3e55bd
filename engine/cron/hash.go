package cron

// draw chooses a number below n for a field, by the hash key. It is part of
// version 1 of the dialects: the same key gives the same number on every machine
// and in every later release. The hash is 64-bit FNV-1a over the key, a zero byte
// and the field's name, finished with the mixer of MurmurHash3 so that the low
// bits are as good as the high ones.
func draw(key string, f Field, n int) int {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for _, s := range [...]string{key, "\x00", f.String()} {
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * prime
		}
	}
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	return int(h % uint64(n))
}
