//go:build unix && race

package crashtest

// slowness is how much more time processes are given, and how much less there is to do: SQLite is Go here, and the race
// detector watches every byte of it.
const slowness = 4
