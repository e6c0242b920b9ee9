//go:build !race

package torture

const thorough = true
