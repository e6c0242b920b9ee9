//go:build unix && race

package crashtest

// slowness is how much more time processes are given, and how much less there is to do.
const slowness = 2
