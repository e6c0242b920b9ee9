//go:build !cgo || !mattn

package main

// cgoSpecs are none unless the program is built with -tags mattn and a C compiler.
func cgoSpecs() []*Spec { return nil }
