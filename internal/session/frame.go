package session

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/tinylib/msgp/msgp"
)

// ErrProtocol is what the other end has done that sends what is no frame, or not its turn. It ends the connection.
var ErrProtocol = errors.New("session: protocol error")

const (
	headLen  = 5       // four bytes of length, and the kind
	maxFrame = 8 << 20 // bytes of a frame's body: a run with all that it may have, several times
	maxKept  = 1 << 20 // bytes that a buffer may have to be kept for the next frame
)

// frame is the body of one.
type frame interface {
	msgp.Marshaler
	msgp.Unmarshaler
	kind() kind
	check() error // what the codec cannot know to be wrong
}

func (*attach) kind() kind   { return kindAttach }
func (*capacity) kind() kind { return kindCapacity }
func (*ping) kind() kind     { return kindPing }
func (*retire) kind() kind   { return kindRetire }
func (*attached) kind() kind { return kindAttached }
func (*refused) kind() kind  { return kindRefused }
func (*assign) kind() kind   { return kindAssign }
func (*cancel) kind() kind   { return kindCancel }
func (*pong) kind() kind     { return kindPong }
func (*retired) kind() kind  { return kindRetired }

// newFrame returns an empty frame of the kind, nil if there is no such kind.
func newFrame(k kind) frame {
	switch k {
	case kindAttach:
		return new(attach)
	case kindCapacity:
		return new(capacity)
	case kindPing:
		return new(ping)
	case kindRetire:
		return new(retire)
	case kindAttached:
		return new(attached)
	case kindRefused:
		return new(refused)
	case kindAssign:
		return new(assign)
	case kindCancel:
		return new(cancel)
	case kindPong:
		return new(pong)
	case kindRetired:
		return new(retired)
	}
	return nil
}

func (a *attach) check() error {
	if a.Session == 0 {
		return errors.New("no session")
	}
	return checkCapacity(a.Capacity, a.Reserved)
}

func (c *capacity) check() error { return checkCapacity(c.Capacity, c.Reserved) }

// checkCapacity keeps what the dispatcher reckons with in bounds.
func checkCapacity(capacity, reserved int) error {
	const most = 1 << 30
	if capacity < 0 || reserved < 0 || capacity > most || reserved > most {
		return fmt.Errorf("capacity of %d and %d", capacity, reserved)
	}
	return nil
}

func (a *attached) check() error { return checkEnded(a.Ended) }
func (c *cancel) check() error   { return checkEnded(c.Ended) }

func checkEnded(list []ended) error {
	for i := range list {
		if w := list[i].Why; w != causeLost && w != causeCanceled {
			return fmt.Errorf("unknown cause %d", w)
		}
	}
	return nil
}

func (a *assign) check() error {
	for i := range a.Grants {
		if g := &a.Grants[i]; g.Run == nil || g.Run.Spec != nil || int(g.Spec) >= len(a.Specs) {
			return fmt.Errorf("grant %d has no run, or no spec", i)
		}
	}
	return nil
}

func (*ping) check() error    { return nil }
func (*retire) check() error  { return nil }
func (*refused) check() error { return nil }
func (*pong) check() error    { return nil }
func (*retired) check() error { return nil }

// appendFrame appends f as it goes over the connection.
func appendFrame(dst []byte, f frame) ([]byte, error) {
	start := len(dst)
	dst, err := f.MarshalMsg(append(dst, 0, 0, 0, 0, byte(f.kind())))
	if err != nil {
		return nil, fmt.Errorf("session: encode frame %d: %w", f.kind(), err)
	}
	n := len(dst) - start - headLen
	if n > maxFrame {
		return nil, fmt.Errorf("session: frame %d of %d bytes is over the limit of %d", f.kind(), n, maxFrame)
	}
	binary.BigEndian.PutUint32(dst[start:], uint32(n))
	return dst, nil
}

// reader reads frames.
type reader struct {
	r    *bufio.Reader
	body bytes.Buffer
}

func newReader(r io.Reader) *reader { return &reader{r: bufio.NewReaderSize(r, 64<<10)} }

// next reads a frame. Errors: io.EOF at the end, [ErrProtocol], and what the connection returns.
func (r *reader) next() (frame, error) {
	var head [headLen]byte
	if _, err := io.ReadFull(r.r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxFrame {
		return nil, fmt.Errorf("%w: frame of %d bytes", ErrProtocol, n)
	}
	r.body.Reset()
	// The buffer grows with what comes, not with what is announced.
	if _, err := io.CopyN(&r.body, r.r, int64(n)); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	f, err := decode(kind(head[4]), r.body.Bytes())
	if r.body.Cap() > maxKept {
		r.body = bytes.Buffer{}
	}
	return f, err
}

// decode makes a frame of its body, which it does not keep.
func decode(k kind, body []byte) (frame, error) {
	f := newFrame(k)
	if f == nil {
		return nil, fmt.Errorf("%w: unknown frame %d", ErrProtocol, k)
	}
	// Skipping finds that lengths are longer than the body, before anything is made of that length.
	rest, err := msgp.Skip(body)
	if err == nil {
		rest, err = f.UnmarshalMsg(body)
	}
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes follow", len(rest))
	}
	if err == nil {
		err = f.check()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: frame %d: %w", ErrProtocol, k, err)
	}
	return f, nil
}
