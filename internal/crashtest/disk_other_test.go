//go:build unix && !linux

package crashtest

import "testing"

// mounted is for Linux: elsewhere only the limit of the process is tested.
func mounted(*testing.T) []disk { return nil }

func readOnly(*testing.T) []disk { return nil }

func unmounted(*testing.T) []loss { return nil }
