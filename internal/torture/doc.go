// Package torture holds the proofs that take long: random sequences against the model in memory, histories of many
// callers in several processes checked for linearizability, a fault at every call of the driver, and power that fails while
// the database is being written to. They run over every store of one list, in stores_test.go.
//
// In `go test` each proof does a fixed amount of work. The variable TORTURE, such as TORTURE=10m, makes each of them run
// for that long instead. Every random choice follows from a seed that is printed.
package torture
