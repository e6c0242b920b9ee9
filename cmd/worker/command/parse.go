package command

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/alkstore/alkworker/queue"
)

// retention is how long dead jobs are kept; queue.KeepForever is written "forever".
type retention time.Duration

// parseDuration reads a whole number of one unit: 90s, 15m, 2h, 3d. A day is 24 hours. There is no sign, no fraction, no
// blank and no combination of units, and a number alone is refused, since nobody can tell what it counts.
func parseDuration(s string) (time.Duration, error) {
	units := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}
	digits := strings.TrimRight(s, "smhd")
	unit, ok := units[s[len(digits):]]
	switch {
	case s == "":
		return 0, errors.New("duration is empty: want a number and a unit, such as 90s, 15m, 2h or 3d")
	case strings.HasPrefix(s, "-"):
		return 0, fmt.Errorf("duration %q is negative", s)
	case isDigits(s):
		return 0, fmt.Errorf("duration %q has no unit: write %ss, %sm, %sh or %sd", s, s, s, s, s)
	case !ok || !isDigits(digits):
		return 0, fmt.Errorf("duration %q is not a whole number and one of the units s, m, h and d, such as 90s or 3d", s)
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > int64(math.MaxInt64/unit) {
		return 0, fmt.Errorf("duration %q is longer than 292 years", s)
	}
	return time.Duration(n) * unit, nil
}

// parseRetention reads a duration of at least one second, or the word forever.
func parseRetention(s string) (retention, error) {
	if s == "forever" {
		return retention(queue.KeepForever), nil
	}
	d, err := parseDuration(s)
	if err == nil && d == 0 {
		err = fmt.Errorf("duration %q is too short: the least is 1s, and forever keeps for good", s)
	}
	return retention(d), err
}

// The times that can be written: the years 1970 to 9999.
const maxUnix = 253402300799

// parseTime reads RFC 3339 or Unix seconds.
func parseTime(s string) (time.Time, error) {
	var t time.Time
	if isDigits(strings.TrimPrefix(s, "-")) {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			n = maxUnix + 1
		}
		t = time.Unix(n, 0)
	} else {
		var err error
		if t, err = time.Parse(time.RFC3339, s); err != nil {
			return time.Time{}, fmt.Errorf("time %q is neither RFC 3339, such as 2030-01-31T08:00:00Z, nor Unix seconds", s)
		}
	}
	if u := t.Unix(); u < 0 || u > maxUnix {
		return time.Time{}, fmt.Errorf("time %q is not within the years 1970 to 9999", s)
	}
	return t, nil
}

// parseInt reads a decimal number; the parser's own would take a leading zero for octal.
func parseInt(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Errorf("number %q is out of range", s)
	}
	if err != nil {
		return 0, fmt.Errorf("%q is not a whole number", s)
	}
	return n, nil
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// mappers teach the parser how values are written.
func mappers() []kong.Option {
	return []kong.Option{
		kong.KindMapper(reflect.String, mapper("value", func(s string) (string, error) { return s, nil })),
		kong.KindMapper(reflect.Int, mapper("number", parseWord)),
		kong.KindMapper(reflect.Int64, mapper("number", parseInt)),
		kong.TypeMapper(reflect.TypeFor[time.Duration](), mapper("duration", parseDuration)),
		kong.TypeMapper(reflect.TypeFor[retention](), mapper("duration", parseRetention)),
		// By pointer: a *time.Time could read text by itself, and the parser would let it.
		kong.TypeMapper(reflect.TypeFor[*time.Time](), mapper("time", func(s string) (*time.Time, error) {
			t, err := parseTime(s)
			return &t, err
		})),
	}
}

// parseWord is parseInt for an int, which may have 32 bits.
func parseWord(s string) (int, error) {
	n, err := parseInt(s)
	if err == nil && int64(int(n)) != n {
		err = fmt.Errorf("number %q is out of range", s)
	}
	return int(n), err
}

// mapper takes the next word as it is, byte for byte: the parser's own mappers go through JSON, which would replace what is
// not UTF-8. A word with a dash in front is a value if it is a negative number, and a flag that lacks its value otherwise.
func mapper[T any](what string, parse func(string) (T, error)) kong.Mapper {
	return kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
		token := ctx.Scan.Pop()
		text, ok := token.Value.(string)
		if !ok || token.IsEOL() || (!token.IsValue() && !isNegative(text)) {
			return fmt.Errorf("missing %s", what)
		}
		v, err := parse(text)
		if err != nil {
			return err
		}
		target.Set(reflect.ValueOf(v).Convert(target.Type()))
		return nil
	})
}

func isNegative(s string) bool { return len(s) > 1 && s[0] == '-' && s[1] >= '0' && s[1] <= '9' }
