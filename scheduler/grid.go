package scheduler

import (
	"fmt"
	"time"
)

// The first and the last second that a boundary, an anchor or the store's clock may have: years 1 to 9999, which is
// what RFC 3339 can say. Differences of two of them and the longest interval together stay far below an int64.
const (
	firstSecond int64 = -62135596800
	lastSecond  int64 = 253402300799
)

// grid is the set of a schedule's boundaries: base + k*every for every integer k, negative ones too, in Unix seconds.
// The base therefore only fixes the phase, and lies on the grid itself wherever it is, past or future. No time zone has
// a part in it (K83), and nothing that was fired or missed moves it (S3).
type grid struct {
	base  int64
	every int64 // positive
}

// newGrid is the grid of a spec that Parse accepts.
func newGrid(spec string, base int64) (grid, error) {
	every, err := Parse(spec)
	if err != nil {
		return grid{}, err
	}
	if !inRange(base) {
		return grid{}, &SpecError{Spec: spec, Reason: fmt.Sprintf("anchor %d is outside the years 1 to 9999", base)}
	}
	return grid{base: base, every: int64(every / time.Second)}, nil
}

// after returns the first boundary strictly after t, and false if there is none up to the end of the year 9999 (K84).
func (g grid) after(t int64) (int64, bool) {
	if !inRange(t) {
		return 0, false
	}
	b := g.base + (floorDiv(t-g.base, g.every)+1)*g.every
	return b, b <= lastSecond
}

// missed returns the boundaries from "from" to now, both included, oldest first and at most limit of them, and how many
// more there were. Its cost depends on limit alone, however many were missed (S5).
func (g grid) missed(from, now, limit int64) (boundaries []int64, skipped int64) {
	// A stored time may have been edited into anything. No boundary lies before the first second.
	from = max(from, firstSecond+1)
	first, ok := g.after(from - 1)
	if !ok || first > now || !inRange(now) {
		return nil, 0
	}
	total := (now-first)/g.every + 1
	n := min(total, limit)
	boundaries = make([]int64, n)
	for i := range boundaries {
		boundaries[i] = first + int64(i)*g.every
	}
	return boundaries, total - n
}

func inRange(t int64) bool { return firstSecond <= t && t <= lastSecond }

// floorDiv rounds towards minus infinity, where Go's division rounds towards zero; b is positive.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
