//go:build race

package torture

// thorough is false under the race detector, which makes everything ten times slower and looks for something else.
const thorough = false
