//go:build race

package sqlite

// Slowness divides the numbers of repetitions: under the race detector SQLite, which is Go here, takes ten times as long,
// unless it is left out, as by make race.
const Slowness = 10
