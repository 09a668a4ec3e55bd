package store

//msgp:ignore Spec Specs

import (
	"math"

	"github.com/tinylib/msgp/msgp"
)

// Priority is the class of a run. A higher class is served first; waiting raises
// a run's effective class, so that nothing starves.
type Priority uint8

// The priority classes.
const (
	Low Priority = iota
	Normal
	High
	Critical
	priorityEnd
)

// NumPriorities is the number of priority classes.
const NumPriorities = int(priorityEnd)

// Unlimited as a number of attempts means that handler errors never end a run.
const Unlimited = math.MaxUint32

// A Spec is what many runs have in common: everything that is asked of a run but
// its input, its due time and its identity. Equal specs are shared in memory, so
// a million runs of one task cost one Spec. A Spec is immutable once decoded by
// [Specs.Intern]; build one as a literal and encode it with [Spec.Encode].
type Spec struct {
	Task     string
	Queue    string
	Tenant   string
	Priority Priority
	Weight   uint32

	Timeout     int64 // ns an attempt may run; 0 = no limit
	ExpireAfter int64 // ns after creation by which it must have started; 0 = never
	UniqueFor   int64 // ns its unique key is held at least, from creation

	Retry  Retry
	Labels []Pair // required of the worker, sorted by key

	raw []byte
}

// specBody is the encoded form of a Spec's fields. It is a type of its own so
// that a Spec can be written as one opaque, comparable blob.
type specBody struct {
	Task        string   `msg:"t"`
	Queue       string   `msg:"q"`
	Tenant      string   `msg:"n,omitempty"`
	Priority    Priority `msg:"p"`
	Weight      uint32   `msg:"w,omitempty"`
	Timeout     int64    `msg:"o,omitempty"`
	ExpireAfter int64    `msg:"x,omitempty"`
	UniqueFor   int64    `msg:"u,omitempty"`
	Retry       Retry    `msg:"r"`
	Labels      []Pair   `msg:"l,omitempty"`
	raw         []byte
}

// Pair is a key with a value; lists of pairs are sorted by key where order could
// be seen.
type Pair struct {
	Key   string `msg:"k"`
	Value string `msg:"v"`
}

// Retry says how handler errors are retried: the delay before retry n (from 1)
// is Initial × Factorⁿ⁻¹, at most Max, of which a share of up to Jitter is taken
// off at random.
type Retry struct {
	Initial  int64   `msg:"i"`           // ns, ≥ 0
	Max      int64   `msg:"m"`           // ns, ≥ Initial
	Factor   float64 `msg:"f"`           // ≥ 1
	Jitter   float64 `msg:"j,omitempty"` // 0 … 1; 1 is full jitter
	Attempts uint32  `msg:"a"`           // handler errors allowed, the last one final; ≥ 1
}

// minRetryDelay is the floor of every retry delay (ns): a delay of nothing, made
// by full jitter or by Initial = 0, would turn a failing handler into a spin.
const minRetryDelay = int64(1e6)

// Delay returns the nanoseconds to wait before the retry after the given number
// of failures (≥ 1). rnd are 64 uniform random bits; equal bits give equal
// delays. The result is never below one millisecond (or Max, if that is less),
// never above Max, and does not overflow whatever the number of failures.
func (r Retry) Delay(failures uint32, rnd uint64) int64 {
	grown := float64(r.Initial) * math.Pow(max(r.Factor, 1), float64(max(failures, 1)-1))
	d := r.Max
	if grown < float64(r.Max) { // false for +Inf and NaN too
		d = int64(grown)
	}
	d = max(d, min(r.Initial, r.Max))
	if r.Jitter > 0 { // false for NaN too
		d -= int64(float64(d) * min(r.Jitter, 1) * float64(rnd>>11) / (1 << 53))
	}
	return max(d, min(minRetryDelay, r.Max), 0)
}

// CrashBudget is the number of lost leases that ends a run: a run that kills
// its worker is stopped after few crashes, and one that may be attempted once is
// started once.
func (s *Spec) CrashBudget() uint32 { return min(3, max(s.Retry.Attempts, 1)) }

// Encode returns the canonical encoded form of s, which identifies it.
func (s *Spec) Encode() []byte {
	b, err := (*specBody)(s).MarshalMsg(nil)
	if err != nil {
		panic("store: encode spec: " + err.Error()) // no field of it can fail
	}
	return b
}

// MarshalMsg implements [msgp.Marshaler]: a Spec is written as the bytes that
// identify it.
func (s *Spec) MarshalMsg(b []byte) ([]byte, error) {
	if s.raw == nil {
		return msgp.AppendBytes(b, s.Encode()), nil
	}
	return msgp.AppendBytes(b, s.raw), nil
}

// UnmarshalMsg implements [msgp.Unmarshaler].
func (s *Spec) UnmarshalMsg(b []byte) ([]byte, error) {
	raw, rest, err := msgp.ReadBytesZC(b)
	if err != nil {
		return b, err
	}
	return rest, s.decode(append([]byte(nil), raw...))
}

func (s *Spec) decode(raw []byte) error {
	var body specBody
	if _, err := body.UnmarshalMsg(raw); err != nil {
		return err
	}
	*s = Spec(body)
	s.raw = raw
	return nil
}

// Msgsize implements [msgp.Sizer].
func (s *Spec) Msgsize() int {
	if s.raw == nil {
		return msgp.BytesPrefixSize + (*specBody)(s).Msgsize()
	}
	return msgp.BytesPrefixSize + len(s.raw)
}

// Specs shares equal specs. It is a cache: dropping it changes nothing but
// memory. Not safe for concurrent use.
type Specs struct {
	byRaw map[string]*Spec
}

// maxSharedSpecs bounds the cache; callers that make a new spec for every run
// (a timeout computed per call, say) would otherwise grow it for ever.
const maxSharedSpecs = 1 << 15

// Intern returns the shared Spec for an encoded form, decoding it the first time
// it is seen. raw is not kept.
func (c *Specs) Intern(raw []byte) (*Spec, error) {
	if s, ok := c.byRaw[string(raw)]; ok {
		return s, nil
	}
	s := new(Spec)
	if err := s.decode(append([]byte(nil), raw...)); err != nil {
		return nil, err
	}
	if c.byRaw == nil || len(c.byRaw) >= maxSharedSpecs {
		c.byRaw = make(map[string]*Spec)
	}
	c.byRaw[string(s.raw)] = s
	return s, nil
}

// share returns the shared spec that is equal to s.
func (c *Specs) share(s *Spec) *Spec {
	raw := s.raw
	if raw == nil {
		raw = s.Encode()
	}
	shared, err := c.Intern(raw)
	if err != nil {
		panic("store: decode spec: " + err.Error()) // it was decoded, or encoded, a moment ago
	}
	return shared
}
