// Package crashtest has no code: its tests run real worker processes on one SQLite file and kill, stop and starve them,
// and break the disk under them.
//
// Each process is the test binary itself with a part to play. What happened is told by a ledger outside the database, a
// file to which every handler appends a line when it starts and when it ends: whether a job ran twice is not a question
// to ask the system that may have run it twice.
//
// TestChaos does all of that at once. The variable TORTURE, such as TORTURE=10m, says for how long.
package crashtest
