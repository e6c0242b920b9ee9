package torture

import (
	"flag"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/alkstore/alkworker/internal/sqlstore/postgres/pgtest"
)

func TestMain(m *testing.M) {
	if serveChild() || serveStore() {
		return
	}
	goleak.VerifyTestMain(pgtest.Main(m))
}

// The variables that steer a run.
const (
	durationVariable = "TORTURE"      // how long each proof goes on, such as 10m; unset: a fixed amount of work
	seedVariable     = "TORTURE_SEED" // repeats a run
)

// rounds calls round n times, or for as long as TORTURE says, each time with another seed, and says how often.
// It ends after the first round that fails.
func rounds(t *testing.T, n int, round func(t *testing.T, seed uint64)) int {
	t.Helper()
	seed := rand.Uint64N(1 << 53)
	if s := os.Getenv(seedVariable); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("to repeat: %s=%d", seedVariable, seed)
	if !thorough {
		n = max(1, n/10)
	}
	var end time.Time
	if s := os.Getenv(durationVariable); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil {
			t.Fatal(err)
		}
		end = time.Now().Add(d)
	}
	for i := 0; ; i++ {
		if t.Failed() || end.IsZero() && i == n || !end.IsZero() && time.Now().After(end) {
			return i
		}
		round(t, seed+uint64(i))
	}
}

// setFlag sets a flag of the test binary unless the command line has.
func setFlag(t *testing.T, name, value string) {
	t.Helper()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	if given && !ours[name] {
		return
	}
	ours[name] = true
	if err := flag.Set(name, value); err != nil {
		t.Fatal(err)
	}
}

// ours are the flags that setFlag has set itself.
var ours = make(map[string]bool)
