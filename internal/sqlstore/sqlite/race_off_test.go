//go:build !race

package sqlite

// Slowness divides the numbers of repetitions.
const Slowness = 1
