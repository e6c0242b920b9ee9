package postgres

import "sync"

// portions is how many jobs to take at most in queues in which a claim was not answered in time. What is too much for the
// time that a call has, be it large payloads or a narrow network, would be so each time.
type portions struct {
	mu sync.Mutex
	of map[string]portion // by queue; those that are not in it have no limit
}

type portion struct {
	most   int64
	failed int64 // the most that was too much: once as many have been answered for, there is no limit any more
}

// limit is the most that a call for n jobs should ask for.
func (p *portions) limit(queue string, n int64) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if of, ok := p.of[queue]; ok {
		return min(n, of.most)
	}
	return n
}

// failed notes that a call for n jobs was not answered in time: the next one asks for one in so many of them.
func (p *portions) failed(queue string, n, share int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = make(map[string]portion)
	}
	p.of[queue] = portion{most: max(1, n/share), failed: max(n, p.of[queue].failed)}
}

// answered notes that a call for n jobs was answered. One for fewer than the limit says nothing about it.
func (p *portions) answered(queue string, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	of, ok := p.of[queue]
	if !ok || n < of.most {
		return
	}
	if of.most = 2 * of.most; of.most > of.failed {
		delete(p.of, queue)
		return
	}
	p.of[queue] = of
}
