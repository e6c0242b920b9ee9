// Package crashtest has no code: its tests run real worker processes on one SQLite file and kill, stop and starve them.
//
// Each process is the test binary itself with a part to play. What happened is told by a ledger outside the database, a
// file to which every handler appends a line when it starts and when it ends: whether a job ran twice is not a question
// to ask the system that may have run it twice.
package crashtest
