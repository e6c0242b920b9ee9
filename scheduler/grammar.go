package scheduler

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/alkstore/alkworker/queue"
)

// maxEveryS is the longest interval in seconds, about 292 years: what a time.Duration holds.
const maxEveryS = math.MaxInt64 / int64(time.Second)

// SpecError is a spec outside the grammar of [Parse], or one that has no further boundary. It matches queue.ErrInvalid.
type SpecError struct {
	Schedule string // whose spec it is; empty from Parse, which knows none
	Spec     string
	Reason   string
}

// Error names the schedule, if known, the spec, shortened if it is long, and what is wrong with it.
func (e *SpecError) Error() string {
	const enough = 64
	spec := e.Spec
	if len(spec) > enough {
		spec = spec[:enough] + "..."
	}
	text := fmt.Sprintf("spec %q: %s", spec, e.Reason)
	if e.Schedule == "" {
		return text
	}
	return fmt.Sprintf("schedule %q: %s", e.Schedule, text)
}

// Is matches queue.ErrInvalid.
func (e *SpecError) Is(target error) bool { return target == queue.ErrInvalid }

// Parse reads a spec and returns its interval, a positive number of whole seconds. The whole grammar is
//
//	@every <n><unit>
//
// with one blank, lower case throughout, n a positive decimal integer without sign or leading zeros, and unit one of s,
// m, h and d (86,400 seconds, whatever a time zone does). There is no other form and no rounding. Everything else, and
// an interval above 292 years, is a [*SpecError].
func Parse(spec string) (time.Duration, error) {
	// S2
	refuse := func(reason string) (time.Duration, error) {
		return 0, &SpecError{Spec: spec, Reason: reason}
	}
	rest, ok := strings.CutPrefix(spec, "@every ")
	if !ok {
		return refuse(`must read "@every <n><unit>", such as "@every 15m"`)
	}
	digits := strings.TrimRight(rest, "smhd")
	var unitS int64
	switch rest[len(digits):] {
	case "s":
		unitS = 1
	case "m":
		unitS = 60
	case "h":
		unitS = 60 * 60
	case "d":
		unitS = 24 * 60 * 60
	default:
		return refuse("must end in a number and one of the units s, m, h and d")
	}
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return refuse("needs a whole number of one unit, without sign, blank or fraction")
	}
	if digits[0] == '0' {
		return refuse("the number must be positive and have no leading zero")
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > maxEveryS/unitS {
		return refuse("the interval is longer than 292 years")
	}
	return time.Duration(n*unitS) * time.Second, nil
}
