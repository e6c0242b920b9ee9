package postgres

import "sync"

// portions is how many jobs to claim at most from queues in which a claim was not answered in time. What is too much for
// the time that a call has, be it large payloads or a narrow network, would be so each time.
type portions struct {
	mu sync.Mutex
	of map[string]int64 // by queue; those that are not in it have no limit
}

// limit is the most that a claim of n jobs should ask for.
func (p *portions) limit(queue string, n int64) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if most, ok := p.of[queue]; ok {
		return min(n, most)
	}
	return n
}

// failed notes that a claim of n jobs was not answered in time.
func (p *portions) failed(queue string, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = make(map[string]int64)
	}
	p.of[queue] = max(1, n/2)
}

// answered notes that a claim of n jobs was answered, where wanted had been asked for.
func (p *portions) answered(queue string, n, wanted int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if most, ok := p.of[queue]; ok && n == most {
		if p.of[queue] = 2 * most; 2*most >= wanted {
			delete(p.of, queue)
		}
	}
}
