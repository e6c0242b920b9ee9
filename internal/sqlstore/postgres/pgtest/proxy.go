package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
)

// Proxy stands between a store and the server, and can swallow what passes without a word, as a network does.
type Proxy struct {
	address string // of the server
	listen  net.Listener
	done    sync.WaitGroup

	mu     sync.Mutex
	silent bool // what comes through now is swallowed, in both directions
	pairs  map[*pair]struct{}
	closed bool
}

// pair is one connection through the proxy. muted is under the lock of the proxy.
type pair struct {
	client, server net.Conn
	muted          bool
}

// NewProxy starts a proxy before the server and returns it with the address that leads through it.
func (s *Server) NewProxy(t testing.TB) (*Proxy, string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{address: fmt.Sprint("127.0.0.1:", s.Port), listen: l, pairs: make(map[*pair]struct{})}
	ctx := context.WithoutCancel(t.Context()) // cleanups of the test may still need connections
	p.done.Go(func() { p.accept(ctx) })
	t.Cleanup(func() {
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		_ = l.Close()
		p.Cut()
		p.done.Wait()
	})
	return p, "postgres://postgres@" + l.Addr().String() + "/postgres?sslmode=disable"
}

// Mute swallows from now on what passes over the connections that there are. New ones are not touched.
func (p *Proxy) Mute() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pairs {
		c.muted = true
	}
}

// Silence swallows everything, or stops doing so. What was swallowed does not come back.
func (p *Proxy) Silence(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = on
}

// Cut closes all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pairs {
		_ = c.client.Close()
		_ = c.server.Close()
	}
}

// Connections counts those that are open.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.pairs)
}

func (p *Proxy) accept(ctx context.Context) {
	for {
		client, err := p.listen.Accept()
		if err != nil {
			return
		}
		server, err := new(net.Dialer).DialContext(ctx, "tcp", p.address)
		if err != nil {
			_ = client.Close()
			continue
		}
		c := &pair{client: client, server: server}
		p.mu.Lock()
		p.pairs[c] = struct{}{}
		closed := p.closed
		p.mu.Unlock()
		if closed {
			p.Cut()
		}
		p.done.Go(func() { p.carry(c) })
	}
}

func (p *Proxy) carry(c *pair) {
	var both sync.WaitGroup
	both.Go(func() { p.pump(c, c.server, c.client) })
	both.Go(func() { p.pump(c, c.client, c.server) })
	both.Wait()
	p.mu.Lock()
	delete(p.pairs, c)
	p.mu.Unlock()
}

func (p *Proxy) pump(c *pair, to, from net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		swallow := p.silent || c.muted
		c.muted = swallow // half a message must not be followed by anything
		p.mu.Unlock()
		if n > 0 && !swallow {
			if _, werr := to.Write(buf[:n]); werr != nil {
				err = errors.Join(err, werr)
			}
		}
		if err == nil {
			continue
		}
		if errors.Is(err, io.EOF) && swallow {
			return // the other side is not told
		}
		_ = to.Close()
		_ = from.Close()
		return
	}
}
