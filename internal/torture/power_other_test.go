//go:build !unix

package torture

func serveChild() bool { return false }
